"""Tests of images and regions in other frameworks' forms: pixels in one row, structs as bytes."""

import cv2
import numpy as np
import pytest

from flowunits import (
    color_convert,
    crop,
    draw_bbox,
    image_decoder,
    image_encoder,
    mean,
    packed_planar_transpose,
    resize,
)
from modelflow import Buffer
from modelflow.image import read_boxes, read_image
from modelflow.testing import run_unit

IMAGE = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
META = {"width": 16, "height": 12, "channel": 3, "pix_fmt": "bgr", "layout": "hwc"}


def one(spec, *columns, **options):
    ports = [port.name for port in spec.inputs]
    inputs = {port: [buffer] for port, buffer in zip(ports, columns, strict=False)}
    ((result,),) = run_unit(spec, inputs, **options).values()
    assert result.error is None, result.get_error_msg()
    return result


@pytest.mark.parametrize("form", ["row", "bytes"])
@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (resize.SPEC, {"image_width": 8, "image_height": 6}),
        (color_convert.SPEC, {"out_pix_fmt": "gray"}),
        (image_encoder.SPEC, {"format": "png"}),
        (packed_planar_transpose.SPEC, {}),
        (crop.SPEC, {"w": 4, "h": 4}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_pixels_in_one_row_are_the_image_that_their_meta_say(form, spec, options):
    row = IMAGE.reshape(-1) if form == "row" else IMAGE.tobytes()
    got, expected = one(spec, Buffer(row, META), **options), one(spec, Buffer(IMAGE), **options)
    assert np.array_equal(np.asarray(got), np.asarray(expected))
    assert got.meta.items() >= expected.meta.items()


@pytest.mark.parametrize(
    ("meta", "shape"),
    [
        ({"width": 16, "height": 12}, (12, 16, 3)),
        ({"width": 16, "height": 36, "pix_fmt": "gray"}, (36, 16, 1)),
        ({"width": 16, "height": 12, "channel": 3, "layout": "chw"}, (3, 12, 16)),
        ({"width": 16, "height": 12, "pix_fmt": "rgbp"}, (3, 12, 16)),
        ({"width": 16, "height": 24, "pix_fmt": "nv12"}, (36, 16)),
    ],
)
def test_the_meta_tell_the_shape_and_nothing_is_copied(meta, shape):
    row = IMAGE.reshape(-1)
    image = read_image(Buffer(row, meta), allow_nv12=True)
    assert image.data.shape == shape
    assert np.shares_memory(image.data, row)


def test_a_row_that_does_not_fit_names_both():
    with pytest.raises(ValueError, match=r"in_image: got 575 values .* 12 x 16 x 3 = 576"):
        read_image(Buffer(IMAGE.reshape(-1)[1:], META))
    with pytest.raises(ValueError, match=r"got 575 bytes; .* put an image_decoder before it"):
        read_image(Buffer(IMAGE.tobytes()[1:], META))


def test_numbers_in_one_row_are_scaled_channel_by_channel():
    got = one(mean.SPEC, Buffer(IMAGE.reshape(-1), META), mean="1, 2, 3")
    assert np.array_equal(got.data, IMAGE.astype(np.float32) - np.float32([1, 2, 3]))


def test_images_tell_their_strides():
    image = one(resize.SPEC, Buffer(IMAGE), image_width=8, image_height=6)
    assert image.get_many("width_stride", "height_stride") == (24, 6)
    image = one(packed_planar_transpose.SPEC, Buffer(IMAGE))
    assert image.get_many("width_stride", "height_stride") == (16, 12)


def test_an_encoded_image_may_be_a_column():
    column = cv2.imencode(".png", IMAGE)[1].reshape(-1, 1)
    assert np.array_equal(one(image_decoder.SPEC, Buffer(column)).data, IMAGE)


@pytest.mark.parametrize("as_array", [True, False])
def test_a_region_may_be_sixteen_bytes(as_array):
    region = np.array([3, 2, 5, 4], np.int32).tobytes()
    data = np.frombuffer(region, np.uint8) if as_array else region
    assert np.array_equal(one(crop.SPEC, Buffer(IMAGE), Buffer(data)).data, IMAGE[2:6, 3:8])


def test_boxes_may_be_structs():
    kinds = [*((name, "<f4") for name in "xywh"), ("category", "<i4"), ("score", "<f4")]
    found = np.array([(1, 2, 3, 4, 5, 0.5), (6, 7, 8, 9, 1, 0.25)], kinds)
    first, second = read_boxes(found.tobytes())
    assert list(first) == [1, 2, 3, 4, 0.5, 5, ""]
    assert (second.score, second.class_id) == (0.25, 1)
    row = np.frombuffer(found.tobytes(), np.uint8)
    drawn = one(draw_bbox.SPEC, Buffer(IMAGE.copy()), Buffer(row), font_scale=0)
    assert not np.array_equal(drawn.data, IMAGE)
    with pytest.raises(ValueError, match="got an array of shape"):
        read_boxes(row[1:])
