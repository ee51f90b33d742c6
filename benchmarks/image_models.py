"""ONNX models of photographs of 224x224, with random weights, for the benchmarks.

An input has the layout of TensorFlow's exports: (batch, 224, 224, 3) float32.
"""

from pathlib import Path

import numpy as np
import onnx
from mobilenet import GROUPS
from onnx import helper, numpy_helper

__all__ = ["SIZE", "write_mobilenet", "write_tiny"]

SIZE = 224
CLASSES = 1000


class _Builder:
    """A graph in the making."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Adds an operator, and returns the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """Adds random weights, and returns their name."""
        return self.constant((self._random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, values: np.ndarray) -> str:
        """Adds a constant, and returns its name."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def convolve(
        self, x: str, channels: int, filters: int, kernel: int, stride: int, group: int = 1
    ) -> str:
        """Adds a convolution with bias, of the scale that keeps the variance."""
        scale = (2 / (channels // group * kernel * kernel)) ** 0.5
        weights = self.weight(filters, channels // group, kernel, kernel, scale=scale)
        pads = [kernel // 2] * 4
        form = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads, "group": group}
        return self.add("Conv", x, weights, self.weight(filters, scale=0.0), **form)

    def save(self, last: str, path: Path) -> None:
        """Writes the model with the output ``scores``."""
        self.nodes.append(helper.make_node("Identity", [last], ["scores"]))
        ports = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in (("image", ["batch", SIZE, SIZE, 3]), ("scores", ["batch", CLASSES]))
        ]
        graph = helper.make_graph(self.nodes, "image", ports[:1], ports[1:], self.weights)
        opset = [helper.make_opsetid("", 13)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def write_tiny(path: Path) -> None:
    """Writes a model that costs little: the mean colour, and one matrix product."""
    builder = _Builder()
    x = builder.add("Transpose", "image", perm=[0, 3, 1, 2])
    x = builder.add("Flatten", builder.add("GlobalAveragePool", x))
    builder.save(builder.add("MatMul", x, builder.weight(3, CLASSES)), path)


def write_mobilenet(path: Path) -> None:
    """Writes MobileNetV2, batch normalization folded into its convolutions."""
    builder = _Builder()
    bounds = [builder.constant(np.float32(bound)) for bound in (0, 6)]

    def relu6(x: str) -> str:
        return builder.add("Clip", x, *bounds)

    x = builder.add("Transpose", "image", perm=[0, 3, 1, 2])
    x = builder.add("Div", x, builder.constant(np.float32(64)))
    x, channels = relu6(builder.convolve(x, 3, 32, 3, 2)), 32
    for expansion, filters, repetitions, first_stride in GROUPS:
        for number in range(repetitions):
            before, stride = x, 1 if number else first_stride
            wide = channels * expansion
            if expansion > 1:
                x = relu6(builder.convolve(x, channels, wide, 1, 1))
            x = relu6(builder.convolve(x, wide, wide, 3, stride, group=wide))
            x = builder.convolve(x, wide, filters, 1, 1)
            if stride == 1 and channels == filters:
                x = builder.add("Add", x, before)
            channels = filters
    x = relu6(builder.convolve(x, channels, 1280, 1, 1))
    x = builder.add("Flatten", builder.add("GlobalAveragePool", x))
    builder.save(builder.add("MatMul", x, builder.weight(1280, CLASSES, scale=0.03)), path)
