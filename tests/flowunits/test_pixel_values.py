"""mean, normalize, image_preprocess, color_convert, packed_planar_transpose, image_encoder."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flowunits import color_convert, image_encoder, image_preprocess, mean, normalize
from flowunits.packed_planar_transpose import SPEC as TRANSPOSE
from modelflow import Buffer
from modelflow.device import CPU, memory_of
from modelflow.image import ChannelScale
from modelflow.testing import run_unit
from tests.flowunits.conftest import planar_buffer

MEAN = np.array([123.68, 116.78, 103.94], np.float32)
SCALE = np.array([0.017, 0.018, 0.019], np.float32)
TEXT = {"mean": "123.68,116.78,103.94", "standard_deviation_inverse": "0.017,0.018,0.019"}

NUMBERS = st.floats(-(2.0**40), 2.0**40, width=32)


def one(spec, data, **options):
    (buffer,) = next(iter(run_unit(spec, {spec.inputs[0].name: [data]}, **options).values()))
    return buffer


def error_of(*args, **options):
    buffer = one(*args, **options)
    assert buffer.has_error()
    return buffer.get_error_msg()


def as_float(pixels):
    return pixels.astype(np.float32)


def test_mean_is_that_of_numpy_for_packed_and_planar(photo):
    expected = as_float(photo) - MEAN
    packed = one(mean.SPEC, photo)
    np.testing.assert_array_equal(packed.data, expected)
    assert packed.data.dtype == np.float32
    planar = one(mean.SPEC, planar_buffer(photo))
    np.testing.assert_array_equal(planar.data, expected.transpose(2, 0, 1))


def test_normalize_is_that_of_numpy_for_packed_and_planar(photo):
    expected = (as_float(photo) - MEAN) * SCALE
    np.testing.assert_array_equal(one(normalize.SPEC, photo, **TEXT).data, expected)
    planar = one(normalize.SPEC, planar_buffer(photo), **TEXT)
    np.testing.assert_array_equal(planar.data, expected.transpose(2, 0, 1))
    alone = one(normalize.SPEC, photo, standard_deviation_inverse="0.017,0.018,0.019")
    np.testing.assert_array_equal(alone.data, as_float(photo) * SCALE)


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(0, 5), st.integers(0, 9), st.just(3))),
    st.lists(NUMBERS, min_size=3, max_size=3) | st.lists(NUMBERS, min_size=1, max_size=1),
    st.lists(NUMBERS, min_size=3, max_size=3) | st.just([]),
)
def test_images_of_any_size_are_scaled_as_numpy_does(image, mean, scale):
    wanted = (image.astype(np.float32) - np.float32(mean)) * np.float32(scale or 1)
    found = ChannelScale(mean, scale).apply(image, "hwc")
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint16", "bool"])
def test_every_type_of_numbers_is_scaled_in_float32(photo, dtype):
    data = photo.astype(dtype)
    expected = (data.astype(np.float32) - MEAN) * SCALE
    np.testing.assert_array_equal(one(normalize.SPEC, data, **TEXT).data, expected)


def test_a_view_that_is_not_contiguous_is_scaled_right(photo):
    np.testing.assert_array_equal(
        one(mean.SPEC, photo[10:50, 20:90, ::-1]).data, as_float(photo[10:50, 20:90, ::-1]) - MEAN
    )


def test_images_of_many_widths_are_scaled_right(photo):
    batch = [np.ascontiguousarray(photo[:3, :width]) for width in range(1, 40)]
    for source, result in zip(
        batch, run_unit(mean.SPEC, {"in_data": batch})["out_data"], strict=True
    ):
        np.testing.assert_array_equal(result.data, as_float(source) - MEAN)


def test_one_value_counts_for_every_channel(photo):
    np.testing.assert_array_equal(one(mean.SPEC, photo, mean="2").data, as_float(photo) - 2)
    gray = one(normalize.SPEC, photo[..., :1], mean="3", standard_deviation_inverse="0.5")
    np.testing.assert_array_equal(gray.data, (as_float(photo[..., :1]) - 3) * np.float32(0.5))


def test_default_factors_fit_any_number_of_channels(photo):
    np.testing.assert_array_equal(one(normalize.SPEC, photo[..., 0]).data, as_float(photo[..., 0]))


@pytest.mark.parametrize(
    ("data", "meta", "expected"),
    [
        (
            np.zeros((4, 5, 1), np.uint8),
            {},
            "got 1 channels (shape (4, 5, 1), layout 'hwc') for 3 values of 'mean'",
        ),
        (
            np.zeros((4, 5, 3), np.uint8),
            {"layout": "chw"},
            "got 4 channels (shape (4, 5, 3), layout 'chw')",
        ),
        (np.zeros((4, 5, 3), np.uint8), {"layout": "x"}, "got layout 'x'"),
        (np.zeros((6, 4), np.uint8), {"pix_fmt": "nv12"}, "got pix_fmt 'nv12'"),
        (np.zeros((4, 5, 3), complex), {}, "got a complex128 array; expected an array of numbers"),
        (b"abc", {}, "got bytes; expected an array of numbers"),
    ],
)
def test_mean_names_what_does_not_fit(photo, data, meta, expected):
    batch = [photo, Buffer(data, meta), photo]
    buffers = run_unit(mean.SPEC, {"in_data": batch})["out_data"]
    assert [b.has_error() for b in buffers] == [False, True, False]
    assert expected in buffers[1].get_error_msg()


def test_meta_of_any_type_stand_in_nobodys_way(photo):
    stack = np.stack([photo, photo])
    buffer = Buffer(stack, {"height": np.array([4, 4])})
    np.testing.assert_array_equal(one(mean.SPEC, buffer).data, as_float(stack) - MEAN)


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("source", ["packed", "planar"])
def test_preprocess_is_convert_mean_scale_and_layout(photo, layout, source):
    data = photo if source == "packed" else planar_buffer(photo)
    expected = (as_float(photo[..., ::-1]) - MEAN) * SCALE
    if layout == "chw":
        expected = expected.transpose(2, 0, 1)
    buffer = one(image_preprocess.SPEC, data, output_layout=layout, out_pix_fmt="rgb", **TEXT)
    np.testing.assert_array_equal(buffer.data, expected)
    assert buffer.data.dtype == np.float32
    assert (buffer.get("layout"), buffer.get("pix_fmt")) == (layout, "rgb")
    plain = one(image_preprocess.SPEC, data, output_layout=layout)
    expected = photo if layout == "hwc" else photo.transpose(2, 0, 1)
    np.testing.assert_array_equal(plain.data, as_float(expected))


def test_preprocess_names_a_wrong_number_of_values(photo):
    message = error_of(image_preprocess.SPEC, photo, out_pix_fmt="gray", mean="1,2,3")
    assert "for 3 values of 'mean'; expected one value a channel" in message


CODES = {
    ("bgr", "rgb"): cv2.COLOR_BGR2RGB,
    ("bgr", "gray"): cv2.COLOR_BGR2GRAY,
    ("rgb", "bgr"): cv2.COLOR_RGB2BGR,
    ("rgb", "gray"): cv2.COLOR_RGB2GRAY,
    ("gray", "bgr"): cv2.COLOR_GRAY2BGR,
    ("gray", "rgb"): cv2.COLOR_GRAY2RGB,
}


def with_axis(pixels):
    return pixels[..., None] if pixels.ndim == 2 else pixels


@pytest.mark.parametrize(("source", "target"), CODES)
@pytest.mark.parametrize("is_planar", [False, True])
def test_colours_are_those_of_opencv(photo, source, target, is_planar):
    pixels = photo if source != "gray" else np.ascontiguousarray(photo[..., 1])
    expected = with_axis(cv2.cvtColor(pixels, CODES[source, target]))
    data, meta = with_axis(pixels), {"pix_fmt": source}
    if is_planar:
        data, meta = np.ascontiguousarray(data.transpose(2, 0, 1)), {**meta, "layout": "chw"}
    buffer = one(color_convert.SPEC, Buffer(data, meta), out_pix_fmt=target)
    found = buffer.data.transpose(1, 2, 0) if is_planar else buffer.data
    np.testing.assert_array_equal(found, expected)
    assert buffer.get("pix_fmt") == target
    assert buffer.get("layout") == ("chw" if is_planar else "hwc")
    assert buffer.get("channel") == expected.shape[2]


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("bgr", cv2.COLOR_YUV2BGR_NV12),
        ("rgb", cv2.COLOR_YUV2RGB_NV12),
        ("gray", cv2.COLOR_YUV2GRAY_NV12),
    ],
)
def test_nv12_is_read_as_opencv_does(target, code):
    data = np.random.default_rng(1).integers(0, 256, (36, 30), np.uint8)
    buffer = one(
        color_convert.SPEC,
        Buffer(data, {"pix_fmt": "nv12", "width": 30, "height": 24}),
        out_pix_fmt=target,
    )
    np.testing.assert_array_equal(buffer.data, with_axis(cv2.cvtColor(data, code)))
    assert (buffer.get("width"), buffer.get("height")) == (30, 24)
    message = error_of(
        color_convert.SPEC, Buffer(data[:35], {"pix_fmt": "nv12"}), out_pix_fmt=target
    )
    assert "for pix_fmt 'nv12'; expected (H * 3 / 2, W)" in message


def test_nv12_is_made_of_the_planes_of_opencv(photo):
    pixels = np.ascontiguousarray(photo[:200, :318])
    buffer = one(color_convert.SPEC, pixels, out_pix_fmt="nv12")
    planes = cv2.cvtColor(pixels, cv2.COLOR_BGR2YUV_I420)
    u, v = planes[200:].reshape(2, 100, 159)
    np.testing.assert_array_equal(buffer.data[:200], planes[:200])
    np.testing.assert_array_equal(buffer.data[200:, 0::2], u)
    np.testing.assert_array_equal(buffer.data[200:, 1::2], v)


def test_planar_formats_are_made_and_read(photo):
    planar = one(color_convert.SPEC, photo, out_pix_fmt="rgbp")
    np.testing.assert_array_equal(planar.data, photo[..., ::-1].transpose(2, 0, 1))
    assert (planar.get("pix_fmt"), planar.get("layout")) == ("rgbp", "chw")
    floats = one(mean.SPEC, Buffer(planar.data, {"pix_fmt": "rgbp"}))
    np.testing.assert_array_equal(floats.data, planar.data.astype(np.float32) - MEAN[:, None, None])


def test_transpose_gives_planes(photo):
    buffer = one(TRANSPOSE, photo)
    np.testing.assert_array_equal(buffer.data, photo.transpose(2, 0, 1))
    assert buffer.data.flags.c_contiguous
    assert buffer.meta == {"pix_fmt": "bgr", "layout": "chw"}
    assert buffer.sizes() == {
        "width": 319,
        "height": 201,
        "width_stride": 319,
        "height_stride": 201,
        "channel": 3,
    }
    again = one(TRANSPOSE, buffer)
    assert np.shares_memory(again.data, buffer.data)


@pytest.mark.parametrize(
    ("image_format", "flag"),
    [
        ("jpeg", cv2.IMWRITE_JPEG_QUALITY),
        ("webp", cv2.IMWRITE_WEBP_QUALITY),
        ("png", None),
        ("bmp", None),
        ("tiff", None),
    ],
)
def test_encoder_gives_the_bytes_of_opencv(photo, image_format, flag):
    parameters = [] if flag is None else [flag, 40]
    expected = cv2.imencode(f".{image_format}", photo, parameters)[1].tobytes()
    options = {"format": image_format, "quality": 40}
    buffer = one(image_encoder.SPEC, photo, **options)
    assert buffer.data == expected
    assert buffer.get("format") == image_format
    rgb = Buffer(np.ascontiguousarray(photo[..., ::-1]), {"pix_fmt": "rgb"})
    assert one(image_encoder.SPEC, rgb, **options).data == expected
    assert one(image_encoder.SPEC, planar_buffer(photo), **options).data == expected


def test_encoder_names_an_image_too_large_for_its_format():
    message = error_of(image_encoder.SPEC, np.zeros((1, 70_000, 3), np.uint8), format="webp")
    assert "70000 x 1 pixels, which webp cannot hold" in message


SCALING = [(mean.SPEC, {"mean": "1,2,3"}), (normalize.SPEC, TEXT), (image_preprocess.SPEC, TEXT)]


def batch_of(spec, images, options):
    (column,) = run_unit(spec, {spec.inputs[0].name: images}, **options).values()
    return column


@pytest.mark.parametrize(("spec", "options"), SCALING)
def test_what_is_scaled_together_lies_side_by_side(photo, spec, options):
    images = [photo, photo[::-1], photo[:, ::-1]]
    found = [buffer.data for buffer in batch_of(spec, images, options)]
    batch = memory_of("cpu").gather(found, 3, np.float32, CPU)
    for image, data in zip(images, found, strict=True):
        assert np.shares_memory(batch, data)
        np.testing.assert_array_equal(data, one(spec, image, **options).data)


@pytest.mark.parametrize(("spec", "options"), SCALING)
def test_each_image_of_a_mixed_batch_is_scaled_by_itself(photo, spec, options):
    images = [photo, photo[:, :, :2], photo, photo[:8], planar_buffer(photo), photo]
    found = batch_of(spec, images, options)
    assert [buffer.has_error() for buffer in found] == [False, True, False, False, False, False]
    for place in (0, 2, 3, 4, 5):
        alone = one(spec, images[place], **options)
        np.testing.assert_array_equal(found[place].data, alone.data)
        assert found[place].meta == alone.meta


@pytest.mark.parametrize("channels", [0, 1, 2, 3])
def test_values_that_contradict_each_other_fit_no_image(channels):
    meta = {"height": 2, "width": 2, "channel": channels, "pix_fmt": "bgr", "layout": "hwc"}
    image = Buffer(np.zeros((2, 2, channels), np.uint8), meta)
    (found,) = ChannelScale((1, 2, 3), (1, 2)).read_all([image])
    assert isinstance(found, ValueError)
    assert f"got {channels} channels" in str(found)
