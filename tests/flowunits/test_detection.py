"""letterbox, boxes_to_original, crop_boxes, gather: against plain Python."""

import cv2
import numpy as np
import pytest

from flowunits import boxes_to_original, crop_boxes, gather, letterbox
from modelflow import Buffer, ConfigError, Flow, flowunit
from modelflow.image import Box
from modelflow.testing import run_unit
from tests.flowunits.conftest import planar_buffer

RNG = np.random.default_rng(8)


def fit(image, **options):
    (buffer,) = run_unit(letterbox.SPEC, {"in_image": [image]}, **options)["out_image"]
    return buffer


def map_back(boxes, place):
    buffer = Buffer(boxes, {"letterbox": place})
    (found,) = run_unit(boxes_to_original.SPEC, {"in_region": [buffer]})["out_region"]
    return found


def crop(image, boxes, **options):
    inputs = {"in_image": [image], "in_region": [boxes]}
    return run_unit(crop_boxes.SPEC, inputs, **options)["out_image"]


def reference_letterbox(image, width, height, colour):
    """Returns the picture of the detectors' own code: scaled, rounded, padded on both sides."""
    rows, columns = image.shape[:2]
    scale = min(width / columns, height / rows)
    w, h = max(1, round(columns * scale)), max(1, round(rows * scale))
    left, top = int((width - w) / 2), int((height - h) / 2)
    resized = cv2.resize(image, (w, h), interpolation=cv2.INTER_LINEAR)
    sides = (top, height - h - top, left, width - w - left)
    return cv2.copyMakeBorder(resized, *sides, cv2.BORDER_CONSTANT, value=colour)


@pytest.mark.parametrize("size", [(640, 480), (33, 77), (416, 416), (1, 200), (999, 3)])
def test_letterbox_makes_the_picture_that_detectors_were_trained_on(size):
    image = RNG.integers(0, 256, (size[1], size[0], 3), np.uint8)
    fitted = fit(image, width=160, height=96)
    expected = reference_letterbox(image, 160, 96, (114, 114, 114))
    np.testing.assert_array_equal(fitted.data, expected)
    assert fitted.get("letterbox")[4:] == size


def test_letterbox_stretches_aligns_and_colours(photo):
    stretched = fit(photo, width=64, height=64, keep_ratio=False)
    np.testing.assert_array_equal(stretched.data, cv2.resize(photo, (64, 64)))
    assert stretched.get("letterbox") == (0, 0, 64, 64, 319, 201)
    corner = fit(photo, width=64, height=64, align="top_left", padding_data="1,2,3")
    assert corner.get("letterbox") == (0, 0, 64, 40, 319, 201)
    assert (corner.data[40:] == (1, 2, 3)).all()
    planes = fit(planar_buffer(photo), width=64, height=64)
    assert planes.data.shape == (3, 64, 64)
    assert (planes.data[:, :12] == 114).all()
    message = fit(photo, width=9, height=9, padding_data="1,2").get_error_msg()
    assert "got 3 channels for 2 values of 'padding_data'" in message


@pytest.mark.parametrize("options", [{}, {"align": "top_left"}, {"keep_ratio": False}], ids=str)
def test_boxes_come_back_within_a_pixel_for_500_sizes(options):
    """Marks a rectangle in pictures of many sizes, and finds the rectangle after letterbox."""
    for _ in range(500):
        width, height = map(int, RNG.integers(64, 700, 2))
        w, h = (int(RNG.integers(side // 4, side // 2)) for side in (width, height))
        x, y = int(RNG.integers(0, width - w)), int(RNG.integers(0, height - h))
        image = np.zeros((height, width, 1), np.uint8)
        image[y : y + h, x : x + w] = 255
        fitted = fit(image, width=640, height=512, padding_data="0", **options)
        scale_x, scale_y = (fitted.get("letterbox")[2 + i] / (width, height)[i] for i in (0, 1))
        # the edges within a pixel of the letterboxed picture, by the sums of rows and columns
        edges = []
        for axis, scale in ((0, scale_x), (1, scale_y)):
            line = fitted.data[..., 0].max(axis=axis).astype(float) / 255
            edges.append((int(np.argmax(line > 0)) + 1 - line[line > 0][0], line.sum(), scale))
        (left, across, _), (top, down, _) = edges
        (found,) = map_back([(left, top, across, down, 0.5, 3)], fitted.get("letterbox")).data
        np.testing.assert_allclose(found[:4], (x, y, w, h), atol=1)
        assert found[4:6] == (0.5, 3)


def test_boxes_are_the_inverse_of_the_place_and_clipped():
    place = (10, 20, 100, 50, 1000, 1000)  # 10 times in x, 20 times in y
    boxes = [
        Box(10, 20, 100, 50, 0.9, 1, "all"),
        Box(0, 0, 20, 25, 0.8, 2, "corner"),
        Box(0, 0, 10, 90),  # in the bar
        Box(60, 45, 500, 1, 0.5),
    ]
    assert map_back(boxes, place).data == [
        Box(0, 0, 1000, 1000, 0.9, 1, "all"),
        Box(0, 0, 100, 100, 0.8, 2, "corner"),
        Box(500, 500, 500, 20, 0.5),
    ]
    assert map_back([], place).data == []
    assert map_back(np.array([[10, 20, 1, 1]]), np.array(place)).data == [Box(0, 0, 10, 20)]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (None, "got boxes without the meta 'letterbox'; expected boxes that a detector found"),
        ("text", "got the meta 'letterbox' 'text'; expected the numbers x, y, w, h, width, height"),
        ((0, 0, 0, 5, 5, 5), "with sizes above 0"),
        ((0, 0, 1, 5, float("nan"), 5), "with sizes above 0"),
        ((float("nan"), 0, 1, 5, 5, 5), "expected the numbers"),
        ((0, 0, 1, 5), "expected the numbers"),
    ],
)
def test_boxes_without_a_place_are_refused(place, expected):
    assert expected in map_back([(1, 2, 3, 4)], place).get_error_msg()


def test_boxes_are_mapped_back_once():
    found = map_back([(1, 2, 3, 4)], (0, 0, 5, 5, 5, 5))
    (again,) = run_unit(boxes_to_original.SPEC, {"in_region": [found]})["out_region"]
    assert "no boxes_to_original between" in again.get_error_msg()


@pytest.mark.parametrize("margin", [0, 0.25])
def test_crops_are_those_of_plain_slices(photo, margin):
    boxes = [Box(10.4, 20.6, 30.2, 40, 0.75, 2, "cat"), (-5, -5, 20, 20), (300, 190, 50, 50)]
    crops = crop(photo, boxes, margin=margin)
    for number, (found, box) in enumerate(zip(crops, boxes, strict=True)):
        x, y, w, h = box[:4]
        edges = (x - margin * w, y - margin * h, x + w + margin * w, y + h + margin * h)
        left, top, right, bottom = (max(round(edge), 0) for edge in edges)
        np.testing.assert_array_equal(found.data, photo[top:bottom, left:right])
        assert found.get("box") == (x, y, w, h)
        assert found.get("box_index") == number
    assert (crops[0].get("score"), crops[0].get("class_id"), crops[0].get("label")) == (
        0.75,
        2,
        "cat",
    )
    assert crops[0].get("pix_fmt") == "bgr"


def test_crops_are_resized_to_one_size(photo):
    boxes = [(10, 20, 30, 40), (5, 5, 16, 24)]
    crops = crop(photo, boxes, width=16, height=24)
    for found, (x, y, w, h) in zip(crops, boxes, strict=True):
        expected = cv2.resize(photo[y : y + h, x : x + w], (16, 24))
        np.testing.assert_array_equal(found.data, expected)
    (found,) = crop(planar_buffer(photo), boxes[:1], width=9, height=8, interpolation="inter_area")
    assert found.data.shape == (3, 8, 9)
    with pytest.raises(ConfigError, match="got 9 and 0; expected both or none"):
        crop_boxes.SPEC.configure({"width": 9})


def test_crops_of_planes_are_planes(photo):
    (found,) = crop(planar_buffer(photo), [(3, 4, 5, 6)])
    np.testing.assert_array_equal(found.data, photo[4:10, 3:8].transpose(2, 0, 1))
    assert found.get("layout") == "chw"


def test_boxes_outside_or_too_small_give_no_crop(photo):
    boxes = [(400, 5, 20, 20), (5, 5, 3, 30), (5, 5, 0, 0), (317, 5, 50, 50), (5, 5, 9, 9)]
    crops = crop(photo, boxes, min_size=4)
    assert [found.get("box_index") for found in crops] == [4]


def test_more_boxes_than_allowed_are_an_error(photo):
    (found,) = crop(photo, [(0, 0, 9, 9)] * 5, max_boxes=4)
    assert "got 5 boxes for an image; expected at most 4; set max_boxes" in found.get_error_msg()


def test_gather_adds_meta_in_order():
    parts = [Buffer(1, {"box": (1, 2)}), Buffer("x", {"score": 0.5})]
    (found,) = run_unit(gather.SPEC, {"in_data": parts})["out_data"]
    assert found.data == [1, "x"]
    (found,) = run_unit(gather.SPEC, {"in_data": parts}, meta="box,score", key="name")["out_data"]
    assert found.data == [
        {"box": (1, 2), "score": None, "name": 1},
        {"box": None, "score": 0.5, "name": "x"},
    ]
    with pytest.raises(ConfigError, match="got the key 'value' twice"):
        gather.SPEC.configure({"meta": "value"})


@flowunit
def find(image):
    """Finds a box for each gray of a row of squares of 20 pixels."""
    return [(20 * column, 0, 20, 20) for column in range(image.shape[1] // 20)]


@flowunit
def name(image):
    """Names a crop by its gray; refuses white."""
    gray = int(image.max())
    if gray == 255:
        raise ValueError("too bright")
    return gray


GRAPH = """digraph {
    input [type=input] find crop [flowunit=crop_boxes] name gather [OPTIONS] output [type=output]
    input -> find -> crop:in_region
    input -> crop:in_image
    crop -> name -> gather -> output
}"""


def squares(*grays):
    return Buffer(
        np.repeat(np.repeat(np.uint8([grays]), 20, 0), 20, 1)[..., None], {"path": str(grays)}
    )


def test_each_picture_gets_its_own_objects_and_an_empty_list_without():
    with Flow(GRAPH.replace("OPTIONS", "meta=box_index"), units=[find, name]) as flow:
        pictures = [(1, 2, 3), (), (9,), (4, 5)]
        stream = flow.create_stream_io()
        for grays in pictures:
            stream.send(
                "input", squares(*grays) if grays else Buffer(np.zeros((9, 9, 1), np.uint8))
            )
        stream.close_input()
        answers = [buffer.data for buffer in stream]
    assert answers == [
        [{"box_index": index, "value": gray} for index, gray in enumerate(grays)]
        for grays in pictures
    ]


def test_one_bad_object_fails_its_picture_or_is_named_in_its_list():
    with Flow(GRAPH.replace("OPTIONS", ""), units=[find, name]) as flow:
        with pytest.raises(Exception, match="too bright"):
            flow.infer(squares(1, 255))
        assert flow.infer(squares(1, 2)).data == [1, 2]
    options = "is_exception_visible=true meta=box_index"
    with Flow(GRAPH.replace("OPTIONS", options), units=[find, name]) as flow:
        first, second = flow.infer(squares(1, 255)).data
    assert first == {"box_index": 0, "value": 1}
    assert second["box_index"] == 1
    assert "too bright" in second["error"]
