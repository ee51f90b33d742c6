import sys

import pytest

import modelflow
from tests import programs


def test_all_is_sorted_and_every_name_is_there():
    assert modelflow.__all__ == sorted(modelflow.__all__)
    for name in modelflow.__all__:
        assert getattr(modelflow, name) is not None
    assert dir(modelflow) == modelflow.__all__


HEAVY = {"asyncio", "cv2", "http.client", "multiprocessing", "rich", "ssl", "tensorflow", "torch"}
# The packages of a graph that is read, and not those of the import alone.
OF_GRAPHS = {
    "hashlib",
    "html",
    "importlib.metadata",
    "numpy",
    "tomlkit",
    "tomllib",
    "yaml",
    "zipfile",
}


def imported(program):
    """Returns the modules that a program imports in a process of its own."""
    program = f"try:\n    {program}\nfinally:\n    import sys\n    print()\n    print(*sys.modules)"
    done = programs.run([sys.executable, "-c", program])
    return set(done.stdout.splitlines()[-1].split())


def ours(modules):
    return {name for name in modules if name.partition(".")[0] == "modelflow"}


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("import modelflow", 1),
        ("from modelflow import Flow", 12),
        ("import modelflow.cli.main as main; main.main(['--help'])", 18),
        ("import modelflow.cli.main as main; main.main(['--version'])", 18),
    ],
)
def test_no_numpy_and_no_engine_is_loaded_before_a_flow_is_made(program, most):
    found = imported(program)
    assert not (HEAVY | OF_GRAPHS) & found
    assert len(ours(found)) <= most, sorted(ours(found))


def test_the_main_classes_load_no_engine_and_no_image_library():
    found = imported("from modelflow import Flow, Model, StreamIO")
    assert not HEAVY & found
    assert len(ours(found)) <= 75, sorted(ours(found))


GRAPH = """digraph {
    input [type=input]
    decode [flowunit=image_decoder]
    resize [image_width=224, image_height=224]
    color [flowunit=color_convert, out_pix_fmt=rgb]
    mean [mean="124,117,104"]
    encode [flowunit=image_encoder]
    output [type=output]
    input -> decode -> resize -> color -> mean -> encode -> output
}"""


def test_a_check_loads_the_units_of_the_graph_alone_and_no_library_of_theirs(tmp_path):
    graph = tmp_path / "graph.dot"
    graph.write_text(GRAPH)
    found = imported(f"import modelflow.cli.main as main; main.main(['check', {str(graph)!r}])")
    assert "modelflow.runtime.scheduler" in found, "the check ended early"
    assert not (HEAVY - {"multiprocessing"}) & found
    units = {name.split(".")[1] for name in found if name.startswith("flowunits.")}
    assert units == {"image_decoder", "resize", "color_convert", "mean", "image_encoder"}
    assert len(ours(found)) <= 220, sorted(ours(found))


def test_all_that_requests_need_is_imported_when_the_flow_has_started():
    program = """
import sys
from modelflow import Flow
flow = Flow("digraph { input [type=input] output [type=output] input -> output }").start()
before = set(sys.modules)
flow.infer(1, deadline=9.0)
list(flow.map([1, 2]))
with flow.create_stream_io() as stream:
    stream.exchange({"input": [1]})
flow.stats()
flow.stop()
print(*set(sys.modules) - before)
"""
    done = programs.run([sys.executable, "-c", program], check=True)
    assert done.stdout.split() == []
