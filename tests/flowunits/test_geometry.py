"""resize, crop, center_crop, padding, image_rotate."""

import cv2
import numpy as np
import pytest

from flowunits import center_crop, crop, image_rotate, resize
from flowunits.padding import SPEC as PADDING
from modelflow import Buffer, ConfigError
from modelflow.image import Box
from modelflow.testing import run_unit
from tests.flowunits.conftest import planar_buffer


def one(spec, data, region=None, **options):
    inputs = {"in_image": [data]}
    if region is not None:
        inputs["in_region"] = [region]
    (buffer,) = run_unit(spec, inputs, **options)["out_image"]
    return buffer


def error_of(*args, **options):
    buffer = one(*args, **options)
    assert buffer.has_error()
    return buffer.get_error_msg()


def check_meta(buffer):
    layout = buffer.get("layout")
    height, width, channel = (
        buffer.data.shape if layout == "hwc" else np.roll(buffer.data.shape, -1)
    )
    found = buffer.get("height"), buffer.get("width"), buffer.get("channel")
    assert found == (height, width, channel)


@pytest.mark.parametrize(
    "interpolation",
    [
        "inter_nearest",
        "inter_linear",
        "inter_cubic",
        "inter_area",
        "inter_lanczos4",
        "inter_linear_exact",
        "inter_nearest_exact",
    ],
)
@pytest.mark.parametrize("size", [(224, 224), (37, 91), (640, 480)])
def test_resize_is_bit_equal_to_opencv(photo, interpolation, size):
    flag = getattr(cv2, interpolation.upper())
    expected = cv2.resize(photo, size, interpolation=flag)
    options = {"image_width": size[0], "image_height": size[1], "interpolation": interpolation}
    packed = one(resize.SPEC, photo, **options)
    np.testing.assert_array_equal(packed.data, expected)
    check_meta(packed)
    planar = one(resize.SPEC, planar_buffer(photo), **options)
    for channel, plane in enumerate(planar.data):
        source = np.ascontiguousarray(photo[..., channel])
        expected = cv2.resize(source, size, interpolation=flag)
        np.testing.assert_array_equal(plane, expected)
    check_meta(planar)
    gray = one(resize.SPEC, photo[..., 1], **options)
    expected = cv2.resize(np.ascontiguousarray(photo[..., 1]), size, interpolation=flag)
    np.testing.assert_array_equal(gray.data, expected[..., None])
    assert gray.get("pix_fmt") == "gray"


def test_resize_to_the_same_size_passes_the_array(photo):
    assert np.shares_memory(one(resize.SPEC, photo, width=319, height=201).data, photo)


def test_resize_keeps_the_ratio_within_the_size(photo):
    wide = one(resize.SPEC, photo, width=100, height=100, keep_ratio=True)
    assert wide.data.shape == (63, 100, 3)
    high = one(
        resize.SPEC,
        np.ascontiguousarray(photo.transpose(1, 0, 2)),
        width=100,
        height=100,
        keep_ratio=True,
    )
    assert high.data.shape == (100, 63, 3)


@pytest.mark.parametrize("height", range(1, 64))
def test_padding_and_resize_fit_an_image_alike(height):
    image = np.full((height, 64, 3), 255, np.uint8)
    resized = one(resize.SPEC, image, width=28, height=28, keep_ratio=True)
    padded = one(PADDING, image, width=28, height=28).data
    assert int(padded[:, :, 0].any(axis=1).sum()) == resized.data.shape[0]
    assert resized.data.shape[0] == max(1, round(height * 28 / 64))


def test_resize_keeps_other_meta(photo):
    buffer = one(resize.SPEC, Buffer(photo, {"path": "a.jpg", "width": 319}), width=10, height=10)
    assert buffer.get("path") == "a.jpg"
    assert buffer.get("width") == 10


@pytest.mark.parametrize(
    ("data", "meta", "expected"),
    [
        (np.zeros((4, 6, 3), np.float32), {}, "got a float32 array; expected uint8"),
        (np.zeros((2, 4, 6, 3), np.uint8), {}, "shape (2, 4, 6, 3); expected an image"),
        (np.zeros((0, 6, 3), np.uint8), {}, "shape (0, 6, 3); expected an image"),
        (np.zeros((4, 6, 5), np.uint8), {}, "which is 5 channels; expected 1 or 3"),
        (np.zeros((3, 4, 6), np.uint8), {"layout": "hwc"}, "is the meta 'layout' right?"),
        (np.zeros((4, 6, 3), np.uint8), {"pix_fmt": "gray"}, "expected 1 for pix_fmt 'gray'"),
        (np.zeros((4, 6, 3), np.uint8), {"pix_fmt": "yuv"}, "got pix_fmt 'yuv'; expected one of"),
        (np.zeros((4, 6, 3), np.uint8), {"layout": "nchw"}, "got layout 'nchw'"),
        (np.zeros((6, 4), np.uint8), {"pix_fmt": "nv12"}, "color_convert"),
        (b"abc", {}, "got 3 bytes; expected a uint8 array of an image; put an image_decoder"),
        (None, {}, "got nothing; expected a uint8 array"),
    ],
)
def test_what_is_no_image_is_named_and_nothing_else_fails(photo, data, meta, expected):
    batch = [photo, Buffer(data, meta), photo]
    buffers = run_unit(resize.SPEC, {"in_image": batch}, width=8, height=8)["out_image"]
    assert [b.has_error() for b in buffers] == [False, True, False]
    assert expected in buffers[1].get_error_msg()


REGIONS = [
    (5, 7, 20, 30),
    [5, 7, 20, 30],
    np.array([5, 7, 20, 30]),
    {"x": 5, "y": 7, "w": 20, "h": 30},
    Box(5.9, 7.2, 20.5, 30.1),
]


@pytest.mark.parametrize("region", REGIONS, ids=lambda r: type(r).__name__)
def test_crop_cuts_the_region_in_every_form(photo, region):
    expected = photo[7:37, 5:25]
    packed = one(crop.SPEC, photo, region)
    np.testing.assert_array_equal(packed.data, expected)
    assert not np.shares_memory(packed.data, photo)
    planar = one(crop.SPEC, planar_buffer(photo), region)
    np.testing.assert_array_equal(planar.data, expected.transpose(2, 0, 1))
    check_meta(planar)


def test_crop_takes_a_fixed_region_from_its_options(photo):
    np.testing.assert_array_equal(one(crop.SPEC, photo, x=1, y=2, w=3, h=4).data, photo[2:6, 1:4])
    assert "got no region" in error_of(crop.SPEC, photo)


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        (
            (0, 0, 320, 10),
            "got x=0, y=0, w=320, h=10; expected a region of at least one pixel inside the image "
            "of 319 x 201",
        ),
        ((-1, 0, 5, 5), "x=-1"),
        ((0, 0, 0, 5), "w=0"),
        ((0, 0, 5), "got 3 values; expected a box"),
        ((0, 0, float("nan"), 5), "w=nan"),
        ({"x": 1, "y": 1, "w": 3}, "got no 'h'"),
        (("a", 0, 1, 1), "expected numbers"),
        (7, "got int; expected a box"),
    ],
)
def test_crop_names_a_bad_region(photo, region, expected):
    assert expected in error_of(crop.SPEC, photo, region)


def test_center_crop_cuts_the_middle(photo):
    buffer = one(center_crop.SPEC, photo, image_width=100, image_height=50)
    np.testing.assert_array_equal(buffer.data, photo[75:125, 109:209])
    planar = one(center_crop.SPEC, planar_buffer(photo), image_width=100, image_height=50)
    np.testing.assert_array_equal(planar.data, photo[75:125, 109:209].transpose(2, 0, 1))
    message = error_of(center_crop.SPEC, photo, image_width=320, image_height=50)
    assert "got 319 x 201 pixels; expected at least 320 x 50" in message


@pytest.mark.parametrize(("vertical", "y"), [("top", 0), ("center", 37), ("bottom", 74)])
def test_padding_fits_the_image_and_fills_the_rest(photo, vertical, y):
    inner = cv2.resize(photo, (200, 126))
    expected = np.full((200, 200, 3), (1, 2, 3), np.uint8)
    expected[y : y + 126] = inner
    options = {
        "image_width": 200,
        "image_height": 200,
        "vertical_align": vertical,
        "padding_data": "1,2,3",
    }
    packed = one(PADDING, photo, **options)
    np.testing.assert_array_equal(packed.data, expected)
    planar = one(PADDING, planar_buffer(photo), **options)
    np.testing.assert_array_equal(planar.data, expected.transpose(2, 0, 1))
    check_meta(planar)


@pytest.mark.parametrize(("horizontal", "x"), [("left", 0), ("center", 40), ("right", 81)])
def test_padding_without_scale_keeps_the_pixels(photo, horizontal, x):
    options = {
        "image_width": 400,
        "image_height": 201,
        "horizontal_align": horizontal,
        "need_scale": "false",
    }
    expected = np.zeros((201, 400, 3), np.uint8)
    expected[:, x : x + 319] = photo
    np.testing.assert_array_equal(one(PADDING, photo, **options).data, expected)
    message = error_of(PADDING, photo, image_width=300, image_height=300, need_scale=False)
    assert "expected at most 300 x 300" in message


def test_padding_obeys_its_interpolation(photo):
    buffer = one(PADDING, photo, image_width=638, image_height=402, interpolation="inter_nearest")
    expected = cv2.resize(photo, (638, 402), interpolation=cv2.INTER_NEAREST)
    np.testing.assert_array_equal(buffer.data, expected)


def test_padding_checks_the_number_of_values(photo):
    message = error_of(
        PADDING, photo[..., 0], image_width=10, image_height=10, padding_data="1,2,3"
    )
    assert "got 1 channels for 3 values of 'padding_data'" in message
    assert one(PADDING, photo[..., 0], image_width=10, image_height=10).data.shape == (10, 10, 1)
    with pytest.raises(ConfigError, match="padding_data"):
        PADDING.configure({"image_width": 1, "image_height": 1, "padding_data": "0,0,256"})


@pytest.mark.parametrize(("angle", "turns"), [(0, 0), (90, 3), (180, 2), (270, 1)])
def test_rotate_turns_clockwise(photo, angle, turns):
    expected = np.rot90(photo, turns)
    by_option = one(image_rotate.SPEC, Buffer(photo, {"rotate_angle": 33}), rotate_angle=str(angle))
    np.testing.assert_array_equal(by_option.data, expected)
    assert by_option.get("rotate_angle") == 0
    check_meta(by_option)
    by_meta = one(image_rotate.SPEC, Buffer(photo, {"rotate_angle": angle - 360}))
    np.testing.assert_array_equal(by_meta.data, expected)
    planar = one(image_rotate.SPEC, planar_buffer(photo), rotate_angle=angle)
    np.testing.assert_array_equal(planar.data, expected.transpose(2, 0, 1))
    check_meta(planar)


def test_rotate_needs_an_angle(photo):
    assert "got no meta 'rotate_angle'" in error_of(image_rotate.SPEC, photo)
    assert "rotate_angle=45" in error_of(image_rotate.SPEC, Buffer(photo, {"rotate_angle": 45}))
    with pytest.raises(ConfigError, match="rotate_angle"):
        image_rotate.SPEC.configure({"rotate_angle": 45})
