"""Boxes, as detectors return them and as other units draw or cut them out."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from modelflow.image.row import data_error


class Box(NamedTuple):
    """A rectangle in pixels with the class and the score of its contents.

    Attributes:
        x, y: The top left corner, counted from the image's top left corner.
        w, h: The width and height.
        score: The score, 0..1.
        class_id: The number of the class, counted from 0.
        label: The name of the class, or ``""``.
    """

    x: float
    y: float
    w: float
    h: float
    score: float = 1.0
    class_id: int = 0
    label: str = ""


# The boxes whose overlaps `suppress` calculates at once.
_AT_ONCE = 32
# The layouts that C code uses.
_REGION = np.dtype([(name, np.int32) for name in "xywh"])
_FOUND = np.dtype([*((n, np.float32) for n in "xywh"), ("class", np.int32), ("score", np.float32)])

_EXPECTED = "a box: (x, y, w, h[, score[, class_id]]) or a mapping with x, y, w, h"


def read_box(value: Any, where: str = "in_region") -> Box:
    """Reads one box: a `Box`, a mapping, or four to seven numbers in `Box`'s order.

    A mapping has the keys ``x y w h``, and optionally ``score``, ``label`` and one of ``class_id
    class category``, which may be a name. A row of 16 bytes (also as a uint8 array) holds four
    int32.

    Raises:
        ValueError: the value has another form, a number is not finite, or a width or height is
            negative.
    """
    packed = _pack(value)
    if packed is not None and packed.size == _REGION.itemsize:
        value = list(packed.view(_REGION)[0].tolist())
    if isinstance(value, Mapping):
        box = _from_mapping(value, where)
    elif isinstance(value, np.ndarray | Sequence) and not isinstance(value, str | bytes):
        box = _from_row(value, where)
    else:
        raise data_error(where, f"got {type(value).__name__}; expected {_EXPECTED}")
    if not all(isfinite(number) for number in box[:5]) or box.w < 0 or box.h < 0:
        raise data_error(
            where,
            f"got the box x={box.x:g}, y={box.y:g}, w={box.w:g}, h={box.h:g}, "
            f"score={box.score:g}; expected finite numbers, and w and h of at least 0",
        )
    return box


def read_boxes(data: Any, where: str = "in_region") -> list[Box]:
    """Reads a list of boxes (see `read_box`), or an array with one row for each box.

    Bytes (also as a uint8 array of one axis) hold records of float32 x, y, w, h, int32 class and
    float32 score.

    Raises:
        ValueError: the data is no such list, or one of its items is no box.
    """
    packed = _pack(data)
    if packed is not None and packed.size % _FOUND.itemsize == 0:
        return [
            read_box([x, y, w, h, score, category], f"{where}[{index}]")
            for index, (x, y, w, h, category, score) in enumerate(packed.view(_FOUND).tolist())
        ]
    if isinstance(data, np.ndarray):
        if data.ndim != 2 and data.size:
            raise data_error(
                where, f"got an array of shape {data.shape}; expected (N, 4), (N, 5) or (N, 6)"
            )
        data = data.tolist() if data.size else []
    if isinstance(data, Box | Mapping) or not isinstance(data, Sequence) or isinstance(data, str):
        raise data_error(where, f"got {type(data).__name__}; expected a list of boxes")
    return [read_box(item, f"{where}[{index}]") for index, item in enumerate(data)]


def suppress(
    boxes: npt.NDArray[np.floating[Any]],
    scores: npt.NDArray[np.floating[Any]],
    classes: npt.NDArray[np.integer[Any]],
    thresholds: npt.NDArray[np.floating[Any]],
    max_boxes: int,
) -> list[int]:
    """Returns the boxes that survive greedy non-maximum suppression, class by class.

    Args:
        boxes: (N, 4) x, y, w, h.
        scores: (N,) scores.
        classes: (N,) class numbers. Boxes of different classes do not suppress each other.
        thresholds: (N,) overlaps (intersection over union). A box is removed if its overlap with a
            better box of its class is greater than its threshold.
        max_boxes: The most boxes to return.

    Returns:
        Indexes by falling score. The earlier of two boxes with equal scores comes first.
    """
    order = np.argsort(-np.asarray(scores), kind="stable")
    boxes, classes, thresholds = (
        np.asarray(boxes, np.float64)[order],
        classes[order],
        thresholds[order],
    )
    starts, ends, areas = boxes[:, :2], boxes[:, :2] + boxes[:, 2:], boxes[:, 2] * boxes[:, 3]
    is_left = np.ones(len(order), bool)
    kept: list[int] = []
    # Some boxes in one step: NumPy takes as long for 30 x 30 overlaps as for 30.
    for begin in range(0, len(order), _AT_ONCE):
        block = slice(begin, begin + _AT_ONCE)
        if not is_left[block].any():
            continue
        sides = np.minimum(ends[block, None], ends[None, begin:])
        sides -= np.maximum(starts[block, None], starts[None, begin:])
        common = np.clip(sides, 0, None).prod(axis=2)
        union = areas[block, None] + areas[None, begin:] - common
        overlap = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
        is_same = classes[block, None] == classes[None, begin:]
        goes = is_same & (overlap > thresholds[None, begin:])
        for row, removed in enumerate(goes, begin):
            if is_left[row]:
                kept.append(int(order[row]))
                if len(kept) == max_boxes:
                    return kept
                is_left[begin:] &= ~removed
    return kept


def _pack(value: Any) -> npt.NDArray[np.uint8] | None:
    """Returns a row of bytes, or None for a value of another form."""
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(value, np.uint8)
    is_row = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    return np.ascontiguousarray(value) if is_row else None


def _from_mapping(value: Mapping[str, Any], where: str) -> Box:
    missing = [key for key in "xywh" if key not in value]
    if missing:
        raise data_error(where, f"got no {missing[0]!r}; expected {_EXPECTED}")
    named = next((value[key] for key in ("class_id", "class", "category") if key in value), 0)
    label = str(value.get("label", named if isinstance(named, str) else ""))
    number = 0 if isinstance(named, str) else named
    row = [*(value[key] for key in "xywh"), value.get("score", 1.0), number]
    x, y, w, h, score, class_id = _numbers(row, where)
    return Box(x, y, w, h, score, int(class_id), label)


def _from_row(value: Any, where: str) -> Box:
    row = list(np.asarray(value).ravel()) if isinstance(value, np.ndarray) else list(value)
    label = row.pop() if len(row) == 7 else ""
    if not 4 <= len(row) <= 6:
        raise data_error(where, f"got {len(row)} values; expected {_EXPECTED}")
    row.extend((1.0, 0)[len(row) - 4 :])
    x, y, w, h, score, class_id = _numbers(row, where)
    return Box(x, y, w, h, score, int(class_id), str(label))


def _numbers(values: list[Any], where: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        raise data_error(where, f"got {values!r}; expected numbers") from None
