"""Tests of ``modelflow model``: ports, a working unit file, times."""

import json
from pathlib import Path

import numpy as np
import pytest

import modelflow as package
from tests.engine.conftest import save_onnx

DIGITS = Path(__file__).parents[2] / "graphs" / "models" / "digits" / "saved_model"


@pytest.fixture
def net(folder):
    return save_onnx(
        folder / "my net.onnx",
        [("Add", ["a", "b"], ["sum"])],
        {"a": ["n", 2], "b": ["n", 2]},
        {"sum": ["n", 2]},
    )


def test_model_shows_ports_and_times(modelflow_here, net):
    done = modelflow_here("model", net.name, "--batch-sizes", "1,4", "--seconds", "0")
    assert done.returncode == 0, done.stderr
    assert "my net.onnx: onnx, 0.0 MB" in done.stdout
    assert "  sum  float32   (2,)" in done.stdout
    times = done.stdout.partition("batch    ms a batch")[2].splitlines()[1:]
    assert [int(line.split()[0]) for line in times] == [1, 4]


def test_unit_file_is_ready_to_use(modelflow_here, net, folder):
    unit = folder / "units" / "net" / "net.toml"
    done = modelflow_here("model", net.name, "--no-timing", "--toml", str(unit))
    assert done.returncode == 0, done.stderr
    ones = np.ones(2, np.float32)
    with package.Model(unit.parent) as model:
        assert model.infer([ones, ones])[0].data.tolist() == [2, 2]
    again = modelflow_here("model", net.name, "--no-timing", "--toml", str(unit))
    assert again.returncode == 1
    assert "the file exists; --force overwrites it" in again.stderr
    of_folder = modelflow_here("model", "units/net", "--json", "--seconds", "0")
    found = json.loads(of_folder.stdout)
    assert [port["name"] for port in found["inputs"]] == ["a", "b"]
    assert [row["batch"] for row in found["timing"]] == [1, 2, 4, 8, 16]


def test_unit_is_named_after_its_file_and_found_by_that_name(modelflow_here, net, folder):
    done = modelflow_here("model", net.name, "--no-timing", "--toml", "units/cls/cls.toml")
    assert done.returncode == 0, done.stderr
    nodes = "a [type=input] b [type=input] {0} sum [type=output] "
    edges = "a -> {0}:a b -> {0}:b {0}:sum -> sum"
    for name in ("cls", "zzz"):
        graph = f"digraph {{ {(nodes + edges).format(name)} }}"
        text = f"[driver]\ndir = ['units']\n[graph]\ngraphconf = '''{graph}'''\n"
        (folder / f"{name}.toml").write_text(text)
    known = modelflow_here("check", "cls.toml")
    assert known.returncode == 0, known.stderr
    unknown = modelflow_here("check", "zzz.toml")
    assert "unknown flow unit 'zzz' (searched: the folder units (holds cls), the" in unknown.stderr


def test_a_model_without_inputs_is_described_and_timed(modelflow_here, folder):
    nodes, ones = [("Identity", ["t"], ["y"])], {"t": np.ones(2, np.float32)}
    save_onnx(folder / "ones.onnx", nodes, {}, {"y": [2]}, ones)
    done = modelflow_here("model", "ones.onnx", "--seconds", "0", "--toml", "ones/ones.toml")
    assert done.returncode == 0, done.stderr
    assert "inputs\n  none: called once for each item of the port 'trigger'" in done.stdout
    with package.Model(folder / "ones") as model:
        assert model.infer([])[0].data.tolist() == [1, 1]


def test_saved_model_is_described_with_its_signature(modelflow_here):
    done = modelflow_here("model", str(DIGITS), "--signature", "serving_default", "--no-timing")
    assert 'signature = "serving_default"' in done.stdout
    assert "image  float32   (8, 8, 1)" in done.stdout


def test_open_shapes_are_asked_for(modelflow_here, folder):
    save_onnx(folder / "open.onnx", [("Relu", ["x"], ["y"])], {"x": ["n", "m"]}, {"y": ["n", "m"]})
    done = modelflow_here("model", "open.onnx", "--seconds", "0")
    assert "not timed: input x (float32 (?, ?)): its shape is open" in done.stderr
    done = modelflow_here("model", "open.onnx", "--seconds", "0", "--shape", "x=3")
    assert done.stderr == ""
    done = modelflow_here("model", "open.onnx", "--shape", "z=3")
    assert "shape of 'z': there is no such input; inputs: x" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["nothing.onnx"], 1, "there is no such file or folder"),
        (["small.toml"], 1, "a '.toml' file, which no engine reads"),
        (["my net.onnx", "--engine", "onx"], 1, "did you mean 'onnx'"),
        (["my net.onnx", "--input", "c"], 1, "no input 'c'"),
        (["my net.onnx", "--batch-sizes", "1,x"], 2, "got '1,x'; expected numbers"),
        (["my net.onnx", "--shape", "a"], 2, "got 'a'; expected NAME=224x224x3"),
    ],
)
def test_mistakes_are_named(modelflow_here, net, arguments, code, what):
    done = modelflow_here("model", *arguments)
    assert done.returncode == code
    assert what in done.stderr


def test_a_class_that_fails_with_zeros_is_told_in_a_line(modelflow_here, folder):
    (folder / "failing.py").write_text(
        "import modelflow\n\n\n"
        "class Net(modelflow.PythonModel):\n"
        "    inputs = (modelflow.Port('x', 'x', dtype='float32', shape='(2,)'),)\n"
        "    outputs = (modelflow.Port('y', 'y', dtype='float32', shape='()'),)\n\n"
        "    def load(self, path, device):\n"
        "        pass\n\n"
        "    def predict(self, x):\n"
        "        raise ValueError('got 2 features')\n"
    )
    (folder / "net.bin").write_bytes(b"0")
    done = modelflow_here("model", "net.bin", "--engine", "failing:Net")
    assert done.returncode == 1
    assert "a batch of 1 with zeros failed: ValueError: got 2 features (failing.py:12)" in (
        done.stderr
    )
    assert "Traceback" not in done.stderr


def test_a_folder_in_the_place_of_the_module_is_named(modelflow_here, folder):
    (folder / "a_folder").mkdir()
    (folder / "net.bin").write_bytes(b"0")
    done = modelflow_here("model", "net.bin", "--engine", "a_folder:Net")
    assert done.returncode == 1
    assert "a_folder is taken for 'a_folder', and has no 'Net'" in done.stderr
