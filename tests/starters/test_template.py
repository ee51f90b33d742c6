import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from modelflow import Flow
from modelflow.errors import ConfigError
from modelflow.graph.read import read_graph
from modelflow.starters.ready import ready_graphs
from modelflow.starters.template import TEMPLATES, write_template
from modelflow.testing import read_unit
from tests import programs
from tests.studio.edit.models.client import SHAPES, picture

SETTINGS = Path(__file__).resolve().parents[2] / "pyproject.toml"
READY = ready_graphs() / "detect_classify.toml"
PYTHON_KINDS = [kind for kind in TEMPLATES["unit"] if kind not in ("inference", "c++")]
# The rules that the settings leave out for templates.
LEFT = "INP001,ANN,D103,ARG,PT,I001,TC"
HAS_RUFF = importlib.util.find_spec("ruff") is not None


def test_new_units_work_and_pass_their_own_tests_and_the_linter(tmp_path):
    written = {kind: write_template("unit", kind, f"my_{kind}", tmp_path) for kind in PYTHON_KINDS}
    for kind, (_, toml, _) in written.items():
        assert read_unit(toml).name == f"my_{kind}"
    tests = [str(test) for _, _, test in written.values()]
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider", "--import-mode", "importlib", *tests],
        *([["ruff", "check", "--config", str(SETTINGS), str(tmp_path)]] if HAS_RUFF else []),
    ):
        done = programs.run([sys.executable, "-m", *command], cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_inference_unit_reads_as_one(tmp_path):
    (toml,) = write_template("unit", "inference", "my_model", tmp_path)
    assert read_unit(toml).is_shared


def test_a_new_native_unit_builds_by_one_command_and_passes_its_own_test(tmp_path):
    paths = write_template("unit", "c++", "my_unit", tmp_path)
    names = [path.name for path in paths]
    assert names == ["Makefile", "my_unit.cpp", "my_unit.toml", "test_my_unit.py"]
    command = ["pytest", "-q", "-p", "no:cacheprovider", str(paths[-1])]
    done = programs.run([sys.executable, "-m", *command], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES["model"])
def test_a_new_model_runs_with_the_tiny_model_that_it_makes(template, tmp_path):
    written = write_template("model", template, "my_model", tmp_path)
    names = ["graph.toml", "make_model.py", "my_model.py", "my_model.toml", "test_my_model.py"]
    assert [path.name for path in written] == names
    folder = tmp_path / "my_model"
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider", "."],
        *(
            [["ruff", "check", "--config", str(SETTINGS), "--ignore", LEFT, "."]]
            if HAS_RUFF
            else []
        ),
    ):
        done = programs.run([sys.executable, "-m", *command], cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("template", TEMPLATES["graph"])
def test_every_graph_is_right_in_both_forms(template, tmp_path):
    written = write_template("graph", template, "my_graph", tmp_path)
    path = tmp_path / "my_graph.toml"
    assert path in written
    graph = read_graph(path)
    assert graph.name == "my_graph"
    if len(written) == 1:  # DOT names no folders of units
        dot = tomllib.loads(path.read_text())["graph"]["graphconf"]
        assert read_graph(dot).nodes.keys() == graph.nodes.keys()


@pytest.mark.parametrize("size", [(240, 320), (480, 480)])
def test_the_graph_of_objects_answers_as_the_ready_graph(tmp_path, size):
    write_template("graph", "objects", "my_graph", tmp_path)
    encoded = picture(("circle", 80, 70, 30), ("square", 220, 160, 42), size=size)
    with Flow(tmp_path / "my_graph.toml") as flow, Flow(READY) as ready:
        assert flow.infer(encoded).data == ready.infer(encoded).data != []


def test_the_graph_of_classes_names_shapes(tmp_path):
    write_template("graph", "classify", "my_graph", tmp_path)
    with Flow(tmp_path / "my_graph.toml") as flow:
        for name in SHAPES:
            encoded = picture((name, 60, 60, 56), size=(120, 120))
            assert flow.infer(encoded).data[0]["class"] == name


def test_a_second_graph_has_the_same_units(tmp_path):
    first = write_template("graph", "classify", "first", tmp_path)
    second = write_template("graph", "objects", "second", tmp_path)
    units = tmp_path / "units"
    assert {one.relative_to(tmp_path).as_posix() for one in first} == {
        "first.toml",
        *(f"pictures/{name}.png" for name in SHAPES),
        *(f"units/shape_infer/{name}" for name in ("names.txt", "shape_infer.toml", "shapes.onnx")),
    }
    assert {one for one in second if units in one.parents} == {
        units / "shape_detect" / name for name in ("shape_detect.onnx", "shape_detect.toml")
    }
    (units / "shape_infer" / "names.txt").write_text("mine\n")
    with pytest.raises(ConfigError, match=r"names.txt: is there already with other contents"):
        write_template("graph", "classify", "third", tmp_path)
    assert not (tmp_path / "third.toml").exists()


def test_nothing_is_overwritten(tmp_path):
    write_template("unit", "normal", "my_unit", tmp_path)
    (tmp_path / "my_unit" / "my_unit.py").unlink()
    with pytest.raises(ConfigError, match="is there already; nothing was written"):
        write_template("unit", "normal", "my_unit", tmp_path)
    assert not (tmp_path / "my_unit" / "my_unit.py").exists()


def test_a_template_is_written_whole_or_not_at_all(tmp_path):
    place = tmp_path / "my_app"
    place.mkdir()
    (place / "units").touch()  # at the path of a folder
    with pytest.raises(ConfigError, match=r"units.*cannot be written"):
        write_template("application", "text", "my_app", tmp_path)
    assert [path.name for path in place.iterdir()] == ["units"]


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written: File exists"):
        write_template("graph", "images", "my_graph", tmp_path / "file")


@pytest.mark.parametrize("name", ["", "1st", "Upper", "a-b", "../x", "class", "x" * 65])
def test_a_bad_name_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match="expected lower-case letters"):
        write_template("unit", "normal", name, tmp_path)


@pytest.mark.parametrize("name", ["numpy", "string"])
def test_a_model_that_would_hide_a_module_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=f"'{name}', the name of a module; .*as model_{name},"):
        write_template("model", "python", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_beside_the_model_is_no_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_model").mkdir()
    assert write_template("model", "python", "my_model", tmp_path)


def test_a_template_that_there_is_not_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"'vidoe'; did you mean 'video'.*of empty"):
        write_template("graph", "vidoe", "my_graph", tmp_path)
