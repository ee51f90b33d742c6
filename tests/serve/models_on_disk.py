"""Models on the disk, which multiply by their version."""

import numpy as np

from tests.engine.conftest import save_onnx

GRAPH = """digraph times {
    input [type=input]
    times [flowunit="%s"]
    output [type=output]
    input -> times -> output
}"""


def write_model(path, factor):
    """Writes ``y = factor * x`` for ``x`` of any number of rows of 2, and moves the whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    factors = {"factor": np.array([factor], np.float32)}
    nodes = [("Mul", ["x", "factor"], ["y"])]
    save_onnx(path.with_suffix(".part"), nodes, {"x": ["n", 2]}, {"y": ["n", 2]}, factors)
    path.with_suffix(".part").rename(path)
    return path


def write_version(folder, number, factor=None):
    """Writes a version that multiplies by its number or ``factor``, and appears complete."""
    hidden = folder / f".{number}"
    write_model(hidden / "model.onnx", number if factor is None else factor)
    hidden.rename(folder / str(number))
    return folder
