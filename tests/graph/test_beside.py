"""Tests of modules next to a graph file."""

import sys

import pytest

import modelflow
from modelflow.config.read import read_config
from modelflow.errors import ConfigError
from modelflow.graph.files import check_beside, look_beside

GRAPH = """digraph {
    input [type=input]
    unit [flowunit="beside_units:unit"]
    output [type=output]
    input -> unit -> output
}"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Yields the folder of two graphs, each with a different module of the same name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "graph.dot").write_text(GRAPH)
        (folder / "beside_units.py").write_text(f"NAME = {name!r}\n")
    yield tmp_path
    sys.modules.pop("beside_units", None)


def test_what_lies_beside_a_graph_is_looked_for_behind_all_else_and_once(folders):
    before = list(sys.path)
    for _ in range(2):
        look_beside(folders / "one" / "graph.dot")
    assert sys.path == [*before, str(folders / "one")]


def test_a_module_of_another_folder_is_refused_unless_it_holds_the_same(folders):
    look_beside(folders / "one" / "graph.dot")
    check_beside(read_config(folders / "two" / "graph.dot"))  # nothing was imported
    import beside_units  # type: ignore[import-not-found]

    assert beside_units.NAME == "one"
    check_beside(read_config(folders / "one" / "graph.dot"))
    with pytest.raises(
        ConfigError, match="the module 'beside_units' next to the graph is not the one"
    ):
        check_beside(read_config(folders / "two" / "graph.dot"))
    (folders / "two" / "beside_units.py").write_text("NAME = 'one'\n")
    check_beside(read_config(folders / "two" / "graph.dot"))


def test_a_flow_is_refused_whose_units_would_be_those_of_another_graph(folders):
    for name in ("one", "two"):
        look_beside(folders / name / "graph.dot")
        (folders / name / "beside_units.py").write_text(
            f"import modelflow\n@modelflow.flowunit\ndef unit(x):\n    return {name!r}\n"
        )
    with modelflow.Flow(folders / "one" / "graph.dot") as flow:
        assert flow.infer(0).data == "one"
    with pytest.raises(
        ConfigError, match="the module 'beside_units' next to the graph is not the one"
    ):
        modelflow.Flow(folders / "two" / "graph.dot").start()
