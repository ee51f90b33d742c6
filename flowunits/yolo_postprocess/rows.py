"""Reads the tensors of networks that compute their boxes themselves.

A network returns either candidates, each a box with a score for each class, or boxes after
suppression, with one score and one class each.
"""

from collections.abc import Sequence

import numpy as np

from flowunits.yolo_postprocess import YoloPostprocessOptions
from flowunits.yolo_postprocess.heads import Candidates, Floats, sigmoid

__all__ = ["read_boxes"]

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


def read_boxes(
    options: YoloPostprocessOptions, tensors: Sequence[Floats], thresholds: Floats
) -> Candidates:
    """Reads the boxes of one image.

    Args:
        options: The options of the unit.
        tensors: One tensor: candidates (4 + classes, N) or (N, 4 + classes), or boxes with score
            and class (N, 6). Two: boxes (N, 4), class scores (N, classes). Three: boxes (N, 4),
            scores (N,), classes (N,).
        thresholds: (classes,) least scores.

    Raises:
        ValueError: a tensor has another shape, a score is not between 0 and 1, or a class does not
            exist.
    """
    if not 1 <= len(tensors) <= 3:
        raise ValueError(
            f"got {len(tensors)} inputs; expected one tensor, or boxes and scores, or boxes, "
            "scores and classes"
        )
    boxes = _without_batch(tensors[0])
    if len(tensors) == 2:
        scores = _without_batch(tensors[1])
        _check_shapes([boxes, scores], [4, len(thresholds)])
        return _read_candidates(options, boxes, scores, thresholds)
    if len(tensors) == 3:
        scores, numbers = tensors[1].reshape(-1), tensors[2].reshape(-1)
        _check_shapes([boxes, scores, numbers], [4, None, None])
        return _read_found(options, boxes, scores, numbers, thresholds)
    rows = _as_rows(options, tensors[0], boxes)
    if rows is None:
        return _read_found(options, boxes[:, :4], boxes[:, 4], boxes[:, 5], thresholds)
    return _read_candidates(options, rows[:, :4], rows[:, 4:], thresholds)


def _read_candidates(
    options: YoloPostprocessOptions, boxes: Floats, scores: Floats, thresholds: Floats
) -> Candidates:
    """Reads a box and the scores of all classes for each candidate."""
    values = scores.max(axis=1)
    if options.logits:
        values = sigmoid(values)
    _check_scores(values, "set logits=true if the network returns logits")
    # Most rows leave here: the search for the best class takes ten times as long as the maximum.
    likely = np.flatnonzero(values >= thresholds.min())
    best = scores[likely].argmax(axis=1)
    good = values[likely] >= thresholds[best]
    picked = likely[good]
    middles = _middles(options, boxes[picked], options.form.box_format)
    return Candidates(middles, values[picked], best[good], options.form.is_suppressed)


def _read_found(
    options: YoloPostprocessOptions,
    boxes: Floats,
    scores: Floats,
    numbers: Floats,
    thresholds: Floats,
) -> Candidates:
    """Reads boxes with one score and one class each. Rows of the score 0 or -1 fill a tensor up."""
    _check_scores(np.maximum(scores, 0), "connect boxes, scores and classes in this order")
    likely = np.flatnonzero((scores >= thresholds.min()) & (scores > 0))
    classes = numbers[likely].astype(np.intp) - options.first_class
    wrong = (classes < 0) | (classes >= len(thresholds)) | (numbers[likely] % 1 != 0)
    if wrong.any():
        raise ValueError(
            f"got the class {numbers[likely][wrong][0]:g}; expected {options.first_class} to "
            f"{options.first_class + len(thresholds) - 1}; see the options classes and first_class"
        )
    good = scores[likely] >= thresholds[classes]
    picked = likely[good]
    middles = _middles(options, boxes[picked], options.form.found_format)
    return Candidates(middles, scores[picked], classes[good], is_suppressed=True)


def _middles(options: YoloPostprocessOptions, boxes: Floats, box_format: str) -> Floats:
    middles: Floats = boxes @ _TO_MIDDLES[box_format]
    if options.form.is_in_fractions:
        middles *= np.array([options.input_width, options.input_height] * 2, np.float32)
    return middles


def _without_batch(tensor: Floats) -> Floats:
    while tensor.ndim > 2 and len(tensor) == 1:
        tensor = tensor[0]
    return tensor


def _as_rows(options: YoloPostprocessOptions, tensor: Floats, table: Floats) -> Floats | None:
    """Returns candidates as (N, 4 + classes), or None for boxes with score and class, (N, 6).

    Networks return candidates as (4 + classes, N), so with two classes (N, 6) is a tensor of boxes
    with score and class. RT-DETR also returns candidates as (N, 4 + classes). Its two scores are
    never all whole, as the numbers of classes are.
    """
    classes = options.classes
    values = 4 + classes
    is_found = table.ndim == 2 and table.shape[1] == 6
    # This shape comes first: a suppression may leave as many boxes as a candidate has numbers.
    if is_found and not (classes == 2 and options.head == "rtdetr" and (table[:, 5] % 1).any()):
        return None
    if table.ndim == 2 and table.shape[0] == values:
        return table.T
    if table.ndim == 2 and table.shape[1] == values:
        return table
    is_raw = values + 1 in table.shape
    hint = "; a tensor with objectness is of head=v5 or head=x" if is_raw else ""
    raise ValueError(
        f"tensor 1: got the shape {tensor.shape}; expected ({values}, N) for {classes} classes, or "
        f"(N, 6) after suppression{hint}"
    )


def _check_shapes(tensors: Sequence[Floats], columns: Sequence[int | None]) -> None:
    for number, (tensor, count) in enumerate(zip(tensors, columns, strict=True), 1):
        expected = "(N,)" if count is None else f"(N, {count})"
        if tensor.shape[1:] != (() if count is None else (count,)):
            raise ValueError(f"tensor {number}: got the shape {tensor.shape}; expected {expected}")
        if len(tensor) != len(tensors[0]):
            raise ValueError(
                f"tensor {number}: got {len(tensor)} rows for {len(tensors[0])} boxes; expected as "
                "many"
            )


def _check_scores(scores: Floats, advice: str) -> None:
    if scores.size and not 0 <= scores.min() <= scores.max() <= 1 + _ROUNDING:
        raise ValueError(
            f"got scores from {scores.min():g} to {scores.max():g}; expected 0 to 1; {advice}"
        )
