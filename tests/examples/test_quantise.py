"""Tests of the INT8 models that ``examples/quantise`` makes from a Keras model."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import programs

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "quantise" / "quantise.py"
for package in ("keras", "nncf", "onnxruntime", "openvino", "sklearn", "tf2onnx"):
    pytest.importorskip(package)
# Keras's variables do not support NumPy 2's copy argument yet.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with a trained network of digits and its examples."""
    import keras
    from sklearn.datasets import load_digits

    digits, folder = load_digits(), tmp_path_factory.mktemp("digits")
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    keras.utils.set_random_seed(0)
    image = keras.Input((8, 8, 1), name="image")
    hidden = keras.layers.Conv2D(16, 3, activation="relu")(image)
    scores = keras.layers.Dense(10, name="scores")(keras.layers.Flatten()(hidden))
    network = keras.Model(image, scores)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(0.01), loss)
    network.fit(images[:1400], digits.target[:1400], epochs=5, verbose=0)
    network.save(folder / "digits.keras")
    np.savez(folder / "digits.npz", image=images[1400:], labels=digits.target[1400:])
    return folder


def test_it_makes_int8_models_with_nearly_all_answers(folder):
    import onnx
    import openvino

    command = [sys.executable, PROGRAM, "digits.keras", "digits.npz", "--seconds", "0.1"]
    done = programs.run([*map(str, command)], cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = {line[:16].strip(): line[16:].split() for line in done.stdout.splitlines()}
    names = ["fp32, onnx", "int8, onnx", "fp32, openvino", "int8, openvino"]
    assert [name for name in rows if name.startswith(("fp32", "int8, o"))][:4] == names
    for name in names:
        *_, agreement, right = (float(cell.rstrip("%")) for cell in rows[name])
        assert agreement >= (100 if name.startswith("fp32") else 97)
        assert right >= 85
    assert done.stdout.count(" times the rate of fp32, onnx, and ") == 2
    nodes = onnx.load(folder / "int8" / "digits.int8.onnx").graph.node
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in nodes}
    quantised = openvino.Core().read_model(folder / "int8" / "digits.int8.xml")
    assert "FakeQuantize" in {op.get_type_name() for op in quantised.get_ops()}


@pytest.mark.parametrize(
    ("gain", "agreement", "words"),
    [
        (2.0, 0.995, "int8 pays: 2.00 times the rate of fp32, onnx, and 99.5% of its answers."),
        (1.1, 1.0, "int8 does not pay: 1.10 times"),
        (3.0, 0.9, "int8 does not pay: 3.00 times"),
    ],
)
def test_it_says_whether_a_model_pays(gain, agreement, words):
    verdict = runpy.run_path(str(PROGRAM), run_name="imported")["verdict"]
    assert verdict("int8", gain, agreement).startswith(words)


def test_examples_that_do_not_fit_the_model_are_named(folder):
    images = np.load(folder / "digits.npz")["image"]
    np.savez(folder / "picture.npz", picture=images)
    np.savez(folder / "one.npz", image=images[:1])
    for file, expected in (
        ("picture.npz", "the examples have the arrays ['picture']; expected one for each input"),
        ("one.npz", "got rows {'image': 1}; expected at least 2"),
    ):
        command = [sys.executable, PROGRAM, "digits.keras", file]
        done = programs.run([*map(str, command)], cwd=folder)
        assert done.returncode != 0
        assert expected in done.stderr
        assert "Traceback" not in done.stderr
