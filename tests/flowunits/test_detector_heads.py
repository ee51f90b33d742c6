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

HEADS_OF_BOXES = ("v8", "v9", "v10", "v11", "v12", "v26", "rtdetr", "ssd")


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


# Format of candidates, format of boxes after suppression, and the unit of both.
DEFAULTS = {
    **dict.fromkeys(("v8", "v9", "v10", "v11", "v12", "v26"), ("cxcywh", "xyxy", "pixels")),
    "rtdetr": ("cxcywh", "cxcywh", "fractions"),
    "ssd": ("xyxy", "xyxy", "fractions"),
}
OPTIONS = [{"box_format": f, "boxes_in": u} for f in FORMATS for u in ("pixels", "fractions")]
CELLS = [(head, {}) for head in DEFAULTS] + [
    (head, options) for head in ("v11", "rtdetr", "ssd") for options in OPTIONS
]


def form_of(head, options, *, is_found):
    candidates, found, boxes_in = DEFAULTS[head]
    default = found if is_found else candidates
    return options.get("box_format", default), options.get("boxes_in", boxes_in)


@pytest.mark.parametrize(("head", "options"), CELLS, ids=str)
def test_candidates_are_read_as_by_a_plain_loop(head, options):
    boxes, scores = corners(), RNG.random((COUNT, CLASSES)).astype(np.float32) ** 2
    rows = written(boxes, *form_of(head, options, is_found=False))
    expected = expected_boxes(boxes, scores, is_suppressed=head in ("rtdetr", "ssd"))
    assert len(expected) > 5
    tensor = np.hstack([rows, scores])
    for tensors in [(tensor.T[None],), (tensor[None],), (tensor.T,), (rows[None], scores[None])]:
        found = yolo(*tensors, head=head, **options)
        assert not found.has_error(), found.get_error_msg()
        check_boxes(found.data, expected)


@pytest.mark.parametrize(("head", "options"), CELLS, ids=str)
def test_boxes_after_suppression_are_read_as_by_a_plain_loop(head, options):
    boxes, scores = corners(), RNG.random((COUNT, CLASSES)).astype(np.float32)
    rows = written(boxes, *form_of(head, options, is_found=True))
    best, classes = scores.max(axis=1), scores.argmax(axis=1)
    tensor = np.column_stack([rows, best, classes]).astype(np.float32)
    forms: list[tuple[np.ndarray, ...]] = [(tensor[None],), (tensor,)]
    forms += [(rows[None], best[None], classes.astype(t)[None]) for t in ("int64", "float32")]
    for tensors in forms:
        found = yolo(*tensors, head=head, **options)
        assert not found.has_error(), found.get_error_msg()
        check_boxes(found.data, expected_boxes(boxes, scores, is_suppressed=True))


def test_with_two_classes_candidates_are_on_the_last_axis():
    boxes, scores = corners(), RNG.random((COUNT, 2)).astype(np.float32)
    rows = np.hstack([written(boxes, "cxcywh", "pixels"), scores])
    found = yolo(rows.T[None], head="v8", classes=2)
    check_boxes(found.data, expected_boxes(boxes, scores, is_suppressed=False))
    message = yolo(rows[None], head="v8", classes=2).get_error_msg()
    assert "got the class 0." in message


@pytest.mark.parametrize("classes", [1, 2, 3, 80])
def test_a_suppression_may_leave_as_many_boxes_as_a_candidate_has_numbers(classes):
    boxes = corners(4 + classes)
    scores = np.linspace(0.9, 0.5, len(boxes), dtype=np.float32)
    rows = np.column_stack([written(boxes, "xyxy", "fractions"), scores, 0 * scores])
    found = yolo(rows[None], head="v8", classes=classes, boxes_in="fractions")
    assert not found.has_error(), found.get_error_msg()
    check_boxes(found.data, expected_boxes(boxes, scores[:, None], is_suppressed=True))


def test_numbers_too_large_for_float32_are_refused():
    message = yolo(np.array([[1e300, 9, 4, 4, 0.9, 0, 0]]), head="v8").get_error_msg()
    assert "tensor 1: got numbers that are not finite in float32" in message


def test_rtdetr_with_two_classes_is_read_in_both_forms():
    boxes = corners()
    rows = written(boxes, "cxcywh", "fractions")
    scores = RNG.random((COUNT, 2)).astype(np.float32)
    expected = expected_boxes(boxes, scores, is_suppressed=True)
    found = np.column_stack([rows, scores.max(1), scores.argmax(1)]).astype(np.float32)
    for tensor in (np.hstack([rows, scores]), found):
        check_boxes(yolo(tensor[None], head="rtdetr", classes=2).data, expected)


@pytest.mark.parametrize("threshold", ["0", "0.25"])
def test_rows_that_fill_a_tensor_up_are_left_out(threshold):
    rows = np.float32([[0, 0, 9, 9, 0.5, 2], [0, 0, 0, 0, 0, -1], [0, 0, 0, 0, -1, -1]])
    found = yolo(rows, head="v26", conf_threshold=threshold).data
    check_boxes(found, [Box(0, 0, 9, 9, 0.5, 2)])


def test_boxes_without_area_are_left_out():
    rows = np.float32([[9, 9, 4, -4, 0.9, 0, 0], [9, 9, 0, 4, 0.8, 0, 0], [9, 9, 4, 4, 0.7, 0, 0]])
    check_boxes(yolo(rows, head="v8").data, [Box(7, 7, 4, 4, 0.7, 0)])


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
    ("head", "shapes"), [("v8", [(7, 0)]), ("v26", [(1, 0, 6)]), ("ssd", [(0, 4), 0, 0])]
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
    best = np.column_stack([corners(), scores.max(1), scores.argmax(1)])
    assert len(yolo(best, head="v10", max_boxes=4).data) == 4


@pytest.mark.parametrize(
    ("head", "shapes", "expected"),
    [
        ("v8", [(1, 8, 60)], "(1, 8, 60); expected (7, N) for 3 classes, or (N, 6) after"),
        ("v8", [(1, 8, 60)], "a tensor with objectness is of head=v5 or head=x"),
        ("v8", [(1, 116, 60)], "tensor 1: got the shape (1, 116, 60); expected (7, N)"),
        ("v8", [(60, 4), (50, 3)], "tensor 2: got 50 rows for 60 boxes; expected as many"),
        ("v8", [(60, 4), (60, 4)], "tensor 2: got the shape (60, 4); expected (N, 3)"),
        ("ssd", [(60, 4), (60,), (50,)], "tensor 3: got 50 rows for 60 boxes"),
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
    assert {*HEADS_OF_BOXES, "v3", "v4", "v5", "v7", "x"} == set(HEADS)
    assert set(DEFAULTS) == set(HEADS_OF_BOXES)
