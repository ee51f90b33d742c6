"""The heads of yolo_postprocess whose networks compute boxes themselves, against plain loops."""

import math

import numpy as np
import pytest

from flowunits.yolo_postprocess import HEADS
from flowunits.yolo_postprocess import SPEC as YOLO
from modelflow import ConfigError
from modelflow.image import Box
from modelflow.testing import run_unit
from tests.flowunits.test_boxes import check_boxes, slow_nms

RNG = np.random.default_rng(5)
WIDTH, HEIGHT, CLASSES, COUNT = 96, 64, 3, 60

ROWS = ("v8", "v9", "v11", "v12", "rtdetr")
FOUND = ("v10", "v26", "end2end", "ssd")


def yolo(*tensors, **options):
    inputs = {f"in_feat{number}": [tensor] for number, tensor in enumerate(tensors, 1)}
    size = {"input_width": WIDTH, "input_height": HEIGHT, "classes": CLASSES}
    (found,) = run_unit(YOLO, inputs, **{**size, **options})["out_region"]
    return found


def corners(count=COUNT):
    """Returns boxes x1 y1 x2 y2 in pixels, as plain numbers."""
    starts = RNG.uniform(0, 40, (count, 2))
    return np.hstack([starts, starts + RNG.uniform(3, 30, (count, 2))]).tolist()


FORMATS = {
    "cxcywh": lambda a, b, c, d: ((a + c) / 2, (b + d) / 2, c - a, d - b),
    "xyxy": lambda a, b, c, d: (a, b, c, d),
    "yxyx": lambda a, b, c, d: (b, a, d, c),
}


def written(boxes, box_format, boxes_in):
    sizes = (HEIGHT, WIDTH) if box_format == "yxyx" else (WIDTH, HEIGHT)
    scale = (*sizes, *sizes) if boxes_in == "fractions" else (1, 1, 1, 1)
    rows = [FORMATS[box_format](*box) for box in boxes]
    return np.float32([[value / by for value, by in zip(row, scale, strict=True)] for row in rows])


def expected_boxes(boxes, scores, threshold=0.25, *, is_suppressed):
    """Returns the boxes whose best class reaches the threshold, after suppression if needed."""
    found = []
    for (a, b, c, d), row in zip(boxes, scores, strict=True):
        best = max(range(len(row)), key=lambda k: row[k])
        if row[best] >= threshold:
            found.append(Box(a, b, c - a, d - b, float(row[best]), best))
    return sorted(found, key=lambda box: -box.score) if is_suppressed else slow_nms(found, 0.45)


DEFAULTS = {
    **dict.fromkeys(("v8", "v9", "v11", "v12"), ("cxcywh", "pixels")),
    **dict.fromkeys(("v10", "v26", "end2end"), ("xyxy", "pixels")),
    "rtdetr": ("cxcywh", "fractions"),
    "ssd": ("xyxy", "fractions"),
}
# A head with the boxes of its own kind, and with those of each other kind as options.
FORMS = [
    (head, {}) for head in DEFAULTS
] + [
    (head, {"box_format": box_format, "boxes_in": boxes_in})
    for head in ("v11", "rtdetr", "end2end", "ssd")
    for box_format in FORMATS
    for boxes_in in ("pixels", "fractions")
]  # fmt: skip


def form_of(head, options):
    box_format, boxes_in = DEFAULTS[head]
    return options.get("box_format", box_format), options.get("boxes_in", boxes_in)


@pytest.mark.parametrize(("head", "options"), FORMS, ids=str)
def test_a_head_is_read_as_by_a_plain_loop(head, options):
    boxes, scores = corners(), RNG.random((COUNT, CLASSES)).astype(np.float32) ** 2
    is_suppressed = head in (*FOUND, "rtdetr")
    rows = written(boxes, *form_of(head, options))
    expected = expected_boxes(boxes, scores, is_suppressed=is_suppressed)
    assert len(expected) > 5
    if head in ROWS:
        tensor = np.hstack([rows, scores])
        forms = [(tensor.T[None],), (tensor[None],), (tensor.T,), (rows[None], scores[None])]
    else:
        best, classes = scores.max(axis=1), scores.argmax(axis=1)
        tensor = np.column_stack([rows, best, classes]).astype(np.float32)
        forms = [(tensor[None],), (tensor,)]
        forms += [(rows[None], best[None], classes.astype(t)[None]) for t in ("int64", "float32")]
    for tensors in forms:
        found = yolo(*tensors, head=head, **options)
        assert not found.has_error(), found.get_error_msg()
        check_boxes(found.data, expected)


def test_logits_become_probabilities_where_the_option_says_so():
    boxes, logits = corners(), RNG.normal(0, 2, (COUNT, CLASSES)).astype(np.float32)
    scores = [[1 / (1 + math.exp(-value)) for value in row] for row in logits.tolist()]
    rows = written(boxes, "cxcywh", "fractions")
    found = yolo(rows, logits, head="rtdetr", logits=True).data
    check_boxes(found, expected_boxes(boxes, scores, is_suppressed=True))
    message = yolo(rows, logits, head="rtdetr").get_error_msg()
    assert "expected 0 to 1; set logits=true if the network returns logits" in message


def test_classes_of_ssd_may_count_from_one_and_rows_of_score_0_are_filling():
    boxes = written([(0, 0, 48, 32), (48, 32, 96, 64), (0, 0, 0, 0)], "yxyx", "fractions")
    found = yolo(
        boxes[None],
        np.float32([[0.6, 0.9, 0]]),
        np.float32([[1, 3, 0]]),
        head="ssd",
        box_format="yxyx",
        first_class=1,
    ).data
    check_boxes(found, [Box(48, 32, 48, 32, 0.9, 2), Box(0, 0, 48, 32, 0.6, 0)])


@pytest.mark.parametrize(
    ("head", "shapes"), [("v8", [(7, 0)]), ("end2end", [(1, 0, 6)]), ("ssd", [(0, 4), 0, 0])]
)
def test_no_candidates_are_no_boxes(head, shapes):
    assert yolo(*(np.zeros(shape, np.float32) for shape in shapes), head=head).data == []


def test_thresholds_of_classes_and_the_most_boxes_hold_for_every_head():
    boxes, scores = corners(), RNG.random((COUNT, CLASSES)).astype(np.float32)
    rows = np.hstack([written(boxes, "cxcywh", "pixels"), scores])
    found = yolo(rows, head="v8", conf_threshold="0.25,0.9,0.25", nms_threshold="1").data
    assert all(box.score >= 0.9 for box in found if box.class_id == 1)
    assert {box.class_id for box in found} >= {0, 2}
    few = yolo(rows, head="v8", conf_threshold="0.25,0.9,0.25", nms_threshold="1", max_boxes=4)
    assert few.data == found[:4]
    best = np.column_stack([rows[:, :4], scores.max(1), scores.argmax(1)])
    assert len(yolo(best, head="v10", max_boxes=4).data) == 4


@pytest.mark.parametrize(
    ("head", "shapes", "expected"),
    [
        ("v8", [(1, 8, 60)], "(1, 8, 60); expected (N, 7), or all candidates last; a tensor with"),
        ("v8", [(1, 50, 6)], "boxes after suppression are of head=end2end"),
        ("v8", [(1, 116, 60)], "tensor 1: got the shape (1, 116, 60); expected (N, 7)"),
        ("v8", [(60, 4), (50, 3)], "got tensors of 60, 50 rows; expected as many in each"),
        ("v8", [(60, 4)] * 3, "got 3 inputs; expected one tensor, or boxes and scores"),
        ("v10", [(60, 4)] * 2, "got 2 inputs; expected one tensor, or boxes, scores and classes"),
        ("v10", [(60, 7)], "tensor 1: got the shape (60, 7); expected (N, 6)"),
        ("v5", [(1, 7, 60)], "expected 3, one for each of the strides; boxes without objectness"),
    ],
)
def test_tensors_of_another_head_are_named_with_the_head_to_use(head, shapes, expected):
    tensors = [np.zeros(shape, np.float32) for shape in shapes]
    assert expected in yolo(*tensors, head=head).get_error_msg()


def test_values_that_cannot_be_are_named():
    rows = np.float32([[0, 0, 5, 5, 0.9, 7]])
    assert (
        "got the class 7; expected 0 to 2; see the options" in yolo(rows, head="v10").error.args[0]
    )
    classes_first = yolo(rows[:, :4], rows[:, 5], rows[:, 4], head="ssd").get_error_msg()
    assert "got scores from 7 to 7; expected 0 to 1; connect boxes, scores" in classes_first


def test_options_of_boxes_are_for_heads_that_have_them():
    size = {"input_width": 96, "input_height": 64}
    with pytest.raises(ConfigError, match="expected none for the head 'v5'"):
        YOLO.configure({**size, "head": "v5", "boxes_in": "fractions"})
    # strides need not divide the size of a network that computes its boxes
    YOLO.configure({"input_width": 97, "input_height": 61, "head": "v11"})


def test_every_head_has_a_test():
    assert {*ROWS, *FOUND, "v3", "v4", "v5", "v7", "x"} == set(HEADS)
