"""Reads the tensors of networks that compute their boxes themselves.

A network returns either a score of each class for each candidate, or boxes with one score and one
class each. HEADS in the package says which head has which form.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.yolo_postprocess import Head
from flowunits.yolo_postprocess.heads import Candidates, Floats, sigmoid

__all__ = ["read_found", "read_rows"]

# Networks of float16 and INT8 round their scores.
_ROUNDING = 1e-2
# How to compute the middle and the size from four numbers: a matrix (4 numbers, 4 results).
_TO_MIDDLES = {
    "cxcywh": np.eye(4, dtype=np.float32),
    "xyxy": np.array(
        [[0.5, 0, -1, 0], [0, 0.5, 0, -1], [0.5, 0, 1, 0], [0, 0.5, 0, 1]], np.float32
    ),
    "yxyx": np.array(
        [[0, 0.5, 0, -1], [0.5, 0, -1, 0], [0, 0.5, 0, 1], [0.5, 0, 1, 0]], np.float32
    ),
}


def read_rows(
    head: Head,
    tensors: Sequence[Floats],
    thresholds: Floats,
    size: tuple[int, int],
    *,
    is_logits: bool,
) -> Candidates:
    """Reads a box and the scores of all classes for each candidate.

    Args:
        head: The form of the boxes.
        tensors: One tensor (4 + classes, N), or (N, 4 + classes). Or two tensors: boxes (N, 4), and
            scores (N, classes).
        thresholds: (classes,) least scores.
        size: The width and height of the network's input, in pixels.
        is_logits: Whether the scores are logits.

    Raises:
        ValueError: a tensor has another shape, or a score is not between 0 and 1.
    """
    classes = len(thresholds)
    if len(tensors) == 1:
        rows = _as_rows(tensors[0], 4 + classes, 1)
        boxes, scores = rows[:, :4], rows[:, 4:]
    elif len(tensors) == 2:
        boxes, scores = _as_rows(tensors[0], 4, 1), _as_rows(tensors[1], classes, 2)
        _check_lengths(boxes, scores)
    else:
        raise ValueError(f"got {len(tensors)} inputs; expected one tensor, or boxes and scores")
    best = scores.argmax(axis=1)
    values = scores[np.arange(len(scores)), best]
    if is_logits:
        values = sigmoid(values)
    _check_scores(values, "set logits=true if the network returns logits")
    good = values >= thresholds[best]
    return Candidates(_middles(head, boxes[good], size), values[good], best[good])


def read_found(
    head: Head,
    tensors: Sequence[Floats],
    thresholds: Floats,
    size: tuple[int, int],
    first_class: int,
) -> Candidates:
    """Reads boxes with one score and one class each. Rows of the score 0 fill a tensor up.

    Args:
        head: The form of the boxes.
        tensors: One tensor (N, 6) of box, score and class, or three: boxes (N, 4), scores (N,) and
            classes (N,).
        thresholds: (classes,) least scores.
        size: The width and height of the network's input, in pixels.
        first_class: The number of the first class in the tensors.

    Raises:
        ValueError: a tensor has another shape, a score is not between 0 and 1, or a class does not
            exist.
    """
    if len(tensors) == 1:
        rows = _as_rows(tensors[0], 6, 1)
        boxes, scores, numbers = rows[:, :4], rows[:, 4], rows[:, 5]
    elif len(tensors) == 3:
        boxes = _as_rows(tensors[0], 4, 1)
        scores, numbers = tensors[1].reshape(-1), tensors[2].reshape(-1)
        _check_lengths(boxes, scores, numbers)
    else:
        raise ValueError(
            f"got {len(tensors)} inputs; expected one tensor, or boxes, scores and classes"
        )
    _check_scores(scores, "connect boxes, scores and classes in this order")
    likely = np.flatnonzero(scores >= thresholds.min())
    classes = numbers[likely].astype(np.intp) - first_class
    wrong = (classes < 0) | (classes >= len(thresholds)) | (numbers[likely] % 1 != 0)
    if wrong.any():
        raise ValueError(
            f"got the class {numbers[likely][wrong][0]:g}; expected {first_class} to "
            f"{first_class + len(thresholds) - 1}; see the options classes and first_class"
        )
    good = scores[likely] >= thresholds[classes]
    picked = likely[good]
    return Candidates(_middles(head, boxes[picked], size), scores[picked], classes[good])


def _middles(head: Head, boxes: Floats, size: tuple[int, int]) -> Floats:
    middles: Floats = boxes @ _TO_MIDDLES[head.box_format]
    if head.is_in_fractions:
        middles *= np.array([*size, *size], np.float32)
    return middles


def _as_rows(tensor: Floats, values: int, number: int) -> Floats:
    """Returns a tensor as (N, values), in which the candidates may be on the last axis."""
    rows = tensor
    while rows.ndim > 2 and len(rows) == 1:
        rows = rows[0]
    if rows.ndim == 2 and rows.shape[0] == values and values != 6:
        return rows.T  # networks that return all candidates have them last
    if rows.ndim == 2 and rows.shape[1] == values:
        return rows
    hint = ""
    if values + 1 in rows.shape:
        hint = "; a tensor with objectness is of head=v5 or head=x"
    elif rows.ndim == 2 and 6 in rows.shape:
        hint = "; boxes after suppression are of head=end2end"
    raise ValueError(
        f"tensor {number}: got the shape {tensor.shape}; expected (N, {values}), or all "
        f"candidates last{hint}"
    )


def _check_scores(scores: Floats, advice: str) -> None:
    if scores.size and not 0 <= scores.min() <= scores.max() <= 1 + _ROUNDING:
        raise ValueError(
            f"got scores from {scores.min():g} to {scores.max():g}; expected 0 to 1; {advice}"
        )


def _check_lengths(*tensors: npt.NDArray[Any]) -> None:
    lengths = [len(tensor) for tensor in tensors]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"got tensors of {', '.join(map(str, lengths))} rows; expected as many in each"
        )
