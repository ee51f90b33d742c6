import pytest

from modelflow.errors import ConfigError
from modelflow.graph import files
from modelflow.graph.files import files_in, files_of
from modelflow.graph.read import read_graph

UNIT = '[base]\nname="net"\ntype="python"\nstream=false\nentry="net@Net"\n'
PORTS = '[input.input1]\nname="a"\n[output.output1]\nname="b"\n'
CODE = "import modelflow\nclass Net(modelflow.FlowUnit):\n    pass\n"


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(folder, found):
    return {str(path.resolve().relative_to(folder)) for path in found}


def test_a_graph_is_made_of_its_text_its_units_and_what_its_options_name(tmp_path):
    write(
        tmp_path,
        graph_dot_toml="[graph]\ngraphconffilepath='graph.dot'\n[driver]\ndir=['units']\n",
        graph_dot_dot="digraph { input [type=input] net best [flowunit=top_k, k=1, "
        'labels="names.txt"] output [type=output] input -> net -> best -> output }',
        names_dot_txt="a\nb\n",
        other_dot_txt="",
        units__net__net_dot_toml=UNIT + PORTS,
        units__net__net_dot_py=CODE,
    )
    (tmp_path / "units" / ".hidden").mkdir()
    (tmp_path / "units" / "net" / "__pycache__").mkdir()
    assert names(tmp_path, files_of(read_graph(tmp_path / "graph.toml"))) == {
        "graph.toml",
        "graph.dot",
        "names.txt",
        "units",
        "units/net",
        "units/net/net.toml",
        "units/net/net.py",
    }


def test_an_environment_in_a_folder_is_passed_over(tmp_path):
    write(
        tmp_path, units__a_dot_py="", units__venv__pyvenv_dot_cfg="", units__venv__lib__b_dot_py=""
    )
    assert names(tmp_path, files_in(tmp_path / "units")) == {"units", "units/a.py"}


def test_a_folder_of_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_FILES", 2)
    write(tmp_path, a="", b="", c="")
    with pytest.raises(ConfigError, match=f"{tmp_path}: has more than 2 files"):
        list(files_in(tmp_path))


def test_a_graph_in_code_has_none_of_its_own():
    graph = "digraph { input [type=input] output [type=output] input -> output }"
    assert files_of(read_graph(graph)) == set()
