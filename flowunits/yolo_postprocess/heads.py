"""Decodes the raw tensors of a YOLO network into candidates, one row of numbers per box."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Candidates", "Layer", "decode", "decode_ready", "sigmoid", "split"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layer:
    """The layout of one tensor.

    Attributes:
        width, height: The size in cells.
        stride: Input pixels per cell, (x, y).
        anchors: (A, 2) widths and heights in input pixels; for YOLOX (1, 2), the stride.
    """

    width: int
    height: int
    stride: tuple[float, float]
    anchors: Floats


@dataclass(frozen=True)
class Candidates:
    """Boxes before suppression.

    Attributes:
        boxes: (N, 4) x and y of the middle, width and height, in input pixels.
        scores: (N,) scores.
        classes: (N,) class numbers.
        is_suppressed: Whether no two boxes show the same object.
    """

    boxes: Floats
    scores: Floats
    classes: npt.NDArray[np.intp]
    is_suppressed: bool = False


def decode(
    head: str, tensors: Sequence[Floats], layers: Sequence[Layer], thresholds: Floats
) -> list[Candidates]:
    """Decodes one raw tensor for each layer.

    Args:
        head: ``v3 v5 x``.
        tensors: One for each layer, in any of the forms that `_arranged` accepts.
        layers: Their layouts.
        thresholds: (classes,) least scores.

    Raises:
        ValueError: the shape of a tensor does not fit its layer.
    """
    return [
        _decode_layer(
            head, _arranged(tensor, layer, 5 + len(thresholds), number), layer, thresholds
        )
        for number, (tensor, layer) in enumerate(zip(tensors, layers, strict=True), 1)
    ]


def decode_ready(rows: Floats, thresholds: Floats) -> Candidates:
    """Reads rows that the network has decoded: x, y, w, h, objectness, scores."""
    picked, scores, classes = _best(rows[:, 4], rows[:, 5:], thresholds)
    return Candidates(rows[picked, :4], scores, classes)


def split(rows: Floats, layers: Sequence[Layer]) -> list[Floats]:
    """Splits one tensor (N, 5 + classes) with the rows of all layers into one tensor per layer.

    Raises:
        ValueError: the number of rows differs from the number of cells of the layers.
    """
    counts = [layer.width * layer.height * len(layer.anchors) for layer in layers]
    if len(rows) != sum(counts):
        raise ValueError(
            f"got {len(rows)} rows; expected {sum(counts)} for tensors of "
            f"{', '.join(f'{layer.width} x {layer.height}' for layer in layers)} cells"
        )
    return np.split(rows, np.cumsum(counts)[:-1])


def _arranged(tensor: Floats, layer: Layer, values: int, number: int) -> Floats:
    """Returns a tensor as (A, H, W, values), for any accepted order of its axes."""
    count, height, width = len(layer.anchors), layer.height, layer.width
    shape = tensor.shape
    while len(shape) > 1 and shape[0] == 1 and tensor.ndim > 2:
        forms = _forms(count, height, width, values)
        if shape in forms:
            break
        shape = shape[1:]
    view = tensor.reshape(shape)
    for form, axes in _forms(count, height, width, values).items():
        if shape == form:
            split_form, order = axes
            return view.reshape(split_form).transpose(order)
    raise ValueError(
        f"tensor {number}: got the shape {tensor.shape}; expected ({count * values}, {height}, "
        f"{width}) for {count} anchors, {values - 5} classes and {width} x {height} cells"
    )


def _forms(
    count: int, height: int, width: int, values: int
) -> Mapping[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns the accepted shapes, each with the steps to the form (A, H, W, values)."""
    planar, packed = (count, values, height, width), (height, width, count, values)
    ready = (count, height, width, values)
    from_planar, from_packed, as_is = (0, 2, 3, 1), (2, 0, 1, 3), (0, 1, 2, 3)
    return {
        (count * height * width * values,): (planar, from_planar),
        (height, width, count * values): (packed, from_packed),
        packed: (packed, from_packed),
        (count * height * width, values): (ready, as_is),
        ready: (ready, as_is),
        planar: (planar, from_planar),
        # The last entry wins if shapes are equal: it is the form that networks return.
        (count * values, height, width): (planar, from_planar),
    }


def _decode_layer(head: str, raw: Floats, layer: Layer, thresholds: Floats) -> Candidates:
    # YOLOX returns objectness and classes as probabilities, the other heads as logits.
    objectness, classes = raw[..., 4].reshape(-1), raw[..., 5:].reshape(-1, len(thresholds))
    if head != "x":
        objectness = sigmoid(objectness)
    picked, scores, best = _best(objectness, classes, thresholds, is_logits=head != "x")
    anchor, row, column = np.unravel_index(picked, raw.shape[:3])
    values = raw[anchor, row, column, :4]
    cell = np.stack([column, row], axis=1).astype(np.float32)
    stride = np.array(layer.stride, np.float32)
    anchors = layer.anchors[anchor]
    with np.errstate(over="ignore"):
        if head == "v3":
            middle = (sigmoid(values[:, :2]) + cell) * stride
            size = np.exp(values[:, 2:]) * anchors
        elif head == "v5":
            middle = (sigmoid(values[:, :2]) * 2 - 0.5 + cell) * stride
            size = (sigmoid(values[:, 2:]) * 2) ** 2 * anchors
        else:
            middle = (values[:, :2] + cell) * stride
            size = np.exp(values[:, 2:]) * stride
    return Candidates(np.concatenate([middle, size], axis=1).astype(np.float32), scores, best)


def _best(
    objectness: Floats, classes: Floats, thresholds: Floats, *, is_logits: bool = False
) -> tuple[npt.NDArray[np.intp], Floats, npt.NDArray[np.intp]]:
    """Returns the rows whose best class reaches its threshold, their scores and classes."""
    # No score exceeds its objectness. This check removes most rows before the expensive part.
    picked = np.flatnonzero(objectness >= thresholds.min())
    chosen = classes[picked]
    best = chosen.argmax(axis=1)
    scores = chosen[np.arange(len(picked)), best]
    scores = (sigmoid(scores) if is_logits else scores) * objectness[picked]
    good = scores >= thresholds[best]
    return picked[good], scores[good], best[good]


def sigmoid(x: npt.NDArray[Any]) -> Floats:
    """Returns the probabilities of logits."""
    with np.errstate(over="ignore"):
        result: Floats = 1 / (1 + np.exp(-x))
    return result
