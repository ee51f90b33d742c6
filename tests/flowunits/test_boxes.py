"""draw_bbox, nms, yolo_postprocess: against plain loops."""

import dataclasses
import math
from typing import Any

import cv2
import numpy as np
import pytest

from flowunits import draw_bbox, nms
from flowunits.yolo_postprocess import SPEC as YOLO
from modelflow import Buffer, ConfigError, Port
from modelflow.image import Box
from modelflow.testing import run_unit
from tests.flowunits.conftest import planar_buffer

RNG = np.random.default_rng(3)


def draw(image, boxes, **options):
    inputs = {"in_image": [image], "in_region": [boxes]}
    return run_unit(draw_bbox.SPEC, inputs, **options)["out_image"][0]


def test_boxes_are_drawn_as_opencv_does(photo, tmp_path):
    labels = tmp_path / "names.txt"
    labels.write_text("cat\ndog\n")
    boxes = [
        Box(20, 30, 100.7, 80, 0.875, 1),
        {"x": -5, "y": 150, "w": 9000, "h": 20, "label": "sky"},
    ]
    before = photo.copy()
    buffer = draw(photo, boxes, labels=str(labels), colors="1,2,3,4,5,6", thickness=2)
    expected = photo.copy()
    cv2.rectangle(expected, (20, 30), (120, 110), (4, 5, 6), 2)
    cv2.putText(expected, "dog 0.88", (20, 28), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (4, 5, 6), 2)
    cv2.rectangle(expected, (-5, 150), (8995, 170), (1, 2, 3), 2)
    cv2.putText(expected, "sky 1.00", (-5, 148), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (1, 2, 3), 2)
    np.testing.assert_array_equal(buffer.data, expected)
    np.testing.assert_array_equal(photo, before)


def test_boxes_are_drawn_on_gray_and_far_outside(photo):
    gray = draw(
        photo[..., 0].copy(), np.array([[1, 2, 30, 40, 0.5, 7], [-1e20, 1, 1e30, 1, 0.1, 0]])
    )
    assert gray.data.shape == (201, 319, 1)
    assert not np.array_equal(gray.data[..., 0], photo[..., 0])


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ("text", "got str; expected a list of boxes"),
        ([(1, 2, 3)], "in_region[0]: got 3 values"),
        ([(1, 2, 3, 4), (1, 2, -3, 4)], "in_region[1]: got the box x=1, y=2, w=-3"),
        (np.zeros(4), "got an array of shape (4,)"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_list_of_boxes_is_named(photo, boxes, expected):
    assert expected in draw(photo, boxes).get_error_msg()


def test_drawing_into_planes_is_refused(photo):
    assert "got layout 'chw'; expected 'hwc'" in draw(planar_buffer(photo), []).get_error_msg()


def test_colours_come_in_threes():
    with pytest.raises(ConfigError, match="expected three a colour"):
        draw_bbox.SPEC.configure({"colors": "1,2"})


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    union = a[2] * a[3] + b[2] * b[3] - common
    return common / union if union > 0 else 0.0


def slow_nms(boxes, threshold, most=300):
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: -box.score):
        if all(box.class_id != k.class_id or overlap(box, k) <= threshold for k in kept):
            kept.append(box)
    return kept[:most]


def random_boxes(count):
    rows = np.column_stack(
        [
            RNG.uniform(0, 50, (count, 2)),
            RNG.uniform(5, 40, (count, 2)),
            RNG.random(count),
            RNG.integers(0, 3, count),
        ]
    )
    return [Box(x, y, w, h, score, int(kind)) for x, y, w, h, score, kind in rows.tolist()]


@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_nms_is_greedy_suppression_class_by_class(count):
    boxes = random_boxes(count)
    (buffer,) = run_unit(nms.SPEC, {"in_region": [boxes]}, conf_threshold=0.3)["out_region"]
    expected = slow_nms([box for box in boxes if box.score >= 0.3], 0.45)
    assert buffer.data == expected
    (few,) = run_unit(nms.SPEC, {"in_region": [boxes]}, conf_threshold=0.3, max_boxes=2)[
        "out_region"
    ]
    assert few.data == expected[:2]


def test_nms_takes_scores_of_their_own(tmp_path):
    (tmp_path / "names").write_text("a\nb\n")
    inputs: dict[str, Any] = {
        "in_region": [np.array([[0, 0, 9, 9], [50, 0, 9, 9]]), np.array([[0, 0, 9, 9]]), []],
        "in_scores": [np.array([[0.1, 0.6], [0.7, 0.2]]), np.array([0.9]), np.zeros((0, 2))],
    }
    first, second, third = run_unit(nms.SPEC, inputs, labels=str(tmp_path / "names"))["out_region"]
    assert first.data == [Box(50, 0, 9, 9, 0.7, 0, "a"), Box(0, 0, 9, 9, 0.6, 1, "b")]
    assert second.data == [Box(0, 0, 9, 9, 0.9, 0, "a")]
    assert third.data == []
    wrong: dict[str, Any] = {"in_region": [np.zeros((2, 4))], "in_scores": [np.zeros(3)]}
    (buffer,) = run_unit(nms.SPEC, wrong)["out_region"]
    assert "shape (3,) for 2 boxes" in buffer.get_error_msg()


WIDTH, HEIGHT, CLASSES, STRIDES = 96, 64, 3, (8, 16, 32)
ANCHORS = [
    (10, 13),
    (16, 30),
    (33, 23),
    (30, 61),
    (62, 45),
    (59, 119),
    (116, 90),
    (156, 198),
    (373, 326),
]
SIZE: dict[str, Any] = {"input_width": WIDTH, "input_height": HEIGHT, "classes": CLASSES}


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def slow_yolo(head, tensors, threshold=0.25, nms_threshold=0.45):
    """Tensors (A, 5 + classes, H, W) -> boxes, one number after another."""
    found = []
    for layer, (tensor, stride) in enumerate(zip(tensors, STRIDES, strict=True)):
        count, _, rows, columns = tensor.shape
        for anchor in range(count):
            for row in range(rows):
                for column in range(columns):
                    tx, ty, tw, th, to, *tc = map(float, tensor[anchor, :, row, column])
                    best = max(range(CLASSES), key=lambda c: tc[c])
                    aw, ah = ANCHORS[3 * layer + anchor]
                    score = to * tc[best] if head == "x" else sigmoid(to) * sigmoid(tc[best])
                    if head in ("v3", "v4"):
                        x, y = (sigmoid(tx) + column) * stride, (sigmoid(ty) + row) * stride
                        w, h = math.exp(tw) * aw, math.exp(th) * ah
                    elif head in ("v5", "v7"):
                        x = (2 * sigmoid(tx) - 0.5 + column) * stride
                        y = (2 * sigmoid(ty) - 0.5 + row) * stride
                        w, h = (2 * sigmoid(tw)) ** 2 * aw, (2 * sigmoid(th)) ** 2 * ah
                    else:
                        x, y = (tx + column) * stride, (ty + row) * stride
                        w, h = math.exp(tw) * stride, math.exp(th) * stride
                    if score >= threshold:
                        found.append(Box(x - w / 2, y - h / 2, w, h, score, best))
    return slow_nms(found, nms_threshold)


def tensors_of(head):
    count = 1 if head == "x" else 3
    made = [RNG.normal(0, 1.5, (count, 5 + CLASSES, HEIGHT // s, WIDTH // s)) for s in STRIDES]
    if head == "x":  # for this head, objectness and classes are probabilities
        for tensor in made:
            tensor[:, 4:] = 1 / (1 + np.exp(-tensor[:, 4:]))
    return [tensor.astype(np.float32) for tensor in made]


def yolo(tensors, **options):
    inputs = {f"in_feat{n}": [tensor] for n, tensor in enumerate(tensors, 1)}
    return run_unit(YOLO, inputs, **SIZE, **options)["out_region"][0]


def check_boxes(found, expected):
    assert [box.class_id for box in found] == [box.class_id for box in expected]
    np.testing.assert_allclose(
        [b[:5] for b in found], [b[:5] for b in expected], rtol=1e-3, atol=1e-3
    )


FORMS = {
    "split": lambda t: t,
    "network": lambda t: t.reshape(-1, *t.shape[2:]),
    "batched": lambda t: t.reshape(1, -1, *t.shape[2:]),
    "packed": lambda t: t.transpose(2, 3, 0, 1).reshape(*t.shape[2:], -1),
    "packed_split": lambda t: t.transpose(2, 3, 0, 1),
    "last": lambda t: t.transpose(0, 2, 3, 1),
    "flat": lambda t: t.reshape(-1),
}


@pytest.mark.parametrize("head", ["v3", "v4", "v5", "v7", "x"])
@pytest.mark.parametrize("form", FORMS)
def test_yolo_is_that_of_a_plain_loop(head, form):
    tensors = tensors_of(head)
    expected = slow_yolo(head, tensors)
    assert len(expected) > 5
    found = yolo([FORMS[form](tensor) for tensor in tensors], head=head)
    assert not found.has_error(), found.get_error_msg()
    check_boxes(found.data, expected)


def test_yolox_takes_all_tensors_in_one():
    tensors = tensors_of("x")
    rows = np.concatenate([t[0].transpose(1, 2, 0).reshape(-1, 5 + CLASSES) for t in tensors])
    check_boxes(yolo([rows[None]], head="x").data, slow_yolo("x", tensors))
    message = yolo([rows[:-1]], head="x").get_error_msg()
    assert f"got {len(rows) - 1} rows; expected {len(rows)}" in message


def test_yolo_v5_takes_rows_that_are_decoded():
    rows = np.array([[50, 40, 20, 10, 0.9, 0.1, 0.8, 0.2], [9, 9, 4, 4, 0.2, 1, 0, 0]], np.float32)
    found = yolo([rows], head="v5").data
    check_boxes(found, [Box(40, 35, 20, 10, 0.72, 1)])


def test_yolo_thresholds_shares_and_labels(tmp_path):
    (tmp_path / "names").write_text("a\nb\nc\n")
    tensors = tensors_of("v3")
    boxes = yolo(tensors)
    shares = yolo(tensors, scale_to_input=False, labels=str(tmp_path / "names")).data
    for box, share in zip(boxes.data, shares, strict=True):
        np.testing.assert_allclose(
            share[:4], np.array(box[:4]) / (WIDTH, HEIGHT, WIDTH, HEIGHT), rtol=1e-5
        )
        assert share.label == "abc"[share.class_id]
    strict = yolo(tensors, conf_threshold="0.25,0.9,0.25").data
    assert all(box.score >= 0.9 for box in strict if box.class_id == 1)
    assert {box.class_id for box in strict} >= {0, 2}
    assert len(yolo(tensors, nms_threshold="1").data) > len(boxes.data)
    assert len(yolo(tensors, max_boxes=4).data) == 4


def test_yolo_knows_the_options_of_modelbox():
    tensors = tensors_of("v3")
    options: dict[str, Any] = {
        "input_width": "96",
        "input_height": "64",
        "class_num": "3",
        "score_threshold": "0.25,0.25,0.25",
        "yolo_output_layer_num": "3",
        "yolo_output_layer_wh": "12,8,6,4,3,2",
        "anchor_num": "3,3,3",
        "anchor_biases": ",".join(str(number) for pair in ANCHORS for number in pair),
    }
    inputs = {f"layer/{n}": [tensor] for n, tensor in enumerate(tensors)}
    # Loaded as a folder's unit, which names its own ports.
    spec = dataclasses.replace(YOLO, inputs=tuple(map(Port, inputs)))
    (buffer,) = run_unit(spec, inputs, **options)["out_region"]
    check_boxes(buffer.data, slow_yolo("v3", tensors))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"input_width": 100}, "expected a multiple of the stride 8"),
        ({"anchors": "1,2,3"}, "got 3 numbers for 3 tensors"),
        ({"conf_threshold": "0.1,0.2"}, "got 2 values; expected 1 or 3"),
        ({"yolo_output_layer_num": 2}, "got 2; expected 3"),
        ({"yolo_output_layer_wh": "1,2,3"}, "got 3 values; expected pairs"),
    ],
)
def test_yolo_options_are_checked_against_each_other(options, expected):
    with pytest.raises(ConfigError, match=expected):
        YOLO.configure({**SIZE, **options})


def test_yolo_names_tensors_that_do_not_fit():
    tensors = tensors_of("v3")
    assert "got 2 inputs; expected 3" in yolo(tensors[:2]).get_error_msg()
    swapped = yolo([tensors[1], tensors[0], tensors[2]]).get_error_msg()
    assert "tensor 1: got the shape (3, 8, 4, 6); expected (24, 8, 12)" in swapped
    assert "tensor 2: got bytes" in yolo([tensors[0], Buffer(b"x"), tensors[2]]).get_error_msg()
    broken = tensors[2].copy()
    broken[0, 0, 0, 0] = np.nan
    assert (
        "tensor 3: got numbers that are not finite" in yolo([*tensors[:2], broken]).get_error_msg()
    )
