"""Tests of Pillow's images as inputs and outputs."""

import io

import numpy as np
import pytest
from PIL import Image

import modelflow
from flowunits.image_decoder import SPEC as DECODER
from flowunits.resize import SPEC as RESIZE
from modelflow.buffer import Buffer
from modelflow.image import read_image
from modelflow.testing import run_unit

PIXELS = np.random.default_rng(5).integers(0, 256, (6, 4, 3), np.uint8)


def error_of(spec, port, data, out, **options):
    (buffer,) = run_unit(spec, {port: [data]}, **options)[out]
    return buffer.get_error_msg()


@pytest.mark.parametrize(
    ("data", "meta"),
    [
        (PIXELS, {}),
        (PIXELS, {"pix_fmt": "bgr"}),
        (PIXELS[:, :, ::-1], {"pix_fmt": "rgb", "layout": "hwc"}),
        (PIXELS.transpose(2, 0, 1), {"pix_fmt": "bgrp"}),
        (PIXELS[:, :, ::-1].transpose(2, 0, 1), {"pix_fmt": "rgb", "layout": "chw"}),
    ],
)
def test_an_image_becomes_pillows_and_is_read_again(data, meta):
    image = Buffer(data, meta).to_pil()
    assert (image.mode, image.size) == ("RGB", (4, 6))
    np.testing.assert_array_equal(np.asarray(image)[:, :, ::-1], PIXELS)
    again = read_image(Buffer(image))
    assert again.pix_fmt == "bgr"
    np.testing.assert_array_equal(again.data, PIXELS)


@pytest.mark.parametrize("data", [PIXELS[:, :, 0], PIXELS[:, :, :1]])
def test_a_gray_image_stays_gray(data):
    image = Buffer(data).to_pil()
    assert image.mode == "L"
    again = read_image(Buffer(image))
    assert again.pix_fmt == "gray"
    np.testing.assert_array_equal(again.data[:, :, 0], PIXELS[:, :, 0])


@pytest.mark.parametrize(
    ("data", "meta", "got"),
    [
        (b"abc", {}, "got bytes"),
        (PIXELS.astype(np.float32), {}, r"got a float32 array \(6, 4, 3\)"),
        (PIXELS, {"pix_fmt": "nv12"}, r"got a uint8 array \(6, 4, 3\) of pix_fmt 'nv12'"),
        (np.zeros((2, 3, 4), np.uint8), {}, r"\(2, 3, 4\)"),
        (np.zeros((0, 3, 3), np.uint8), {}, r"\(0, 3, 3\)"),
    ],
)
def test_what_is_no_image_is_said(data, meta, got):
    with pytest.raises(ValueError, match=got + ".*expected a uint8 image"):
        Buffer(data, meta).to_pil()


@pytest.mark.parametrize(
    "mode", ["RGB", "RGBA", "P", "CMYK", "YCbCr", "HSV", "LAB", "1", "L", "LA", "PA"]
)
def test_every_mode_of_eight_bits_is_read_as_pillow_converts_it(mode):
    rgb = Image.fromarray(PIXELS[:, :, ::-1].copy())
    image = rgb.convert("P").convert("PA") if mode == "PA" else to_mode(rgb, mode)
    read = read_image(Buffer(image))
    is_gray = mode in ("1", "L", "LA")
    expected = np.asarray(image.convert("L" if is_gray else "RGB"))
    expected = expected[:, :, None] if is_gray else expected[:, :, ::-1]
    np.testing.assert_array_equal(read.data, expected)


def to_mode(image, mode):
    if mode == "LAB":
        return Image.merge("LAB", image.split())
    return image.convert(mode)


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_modes_of_more_bits_are_refused(mode):
    with pytest.raises(ValueError, match=f"in_image: got a Pillow image of mode '{mode}'"):
        read_image(Buffer(Image.new(mode, (2, 2))))


def test_it_is_turned_upright_as_the_decoder_does():
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS).save(file, "PNG", exif=exif)
    image = Image.open(file)
    np.testing.assert_array_equal(
        read_image(Buffer(image)).data, np.rot90(PIXELS[:, :, ::-1], k=-1)
    )


def test_a_decoder_passes_it_on_as_its_options_want_images():
    image = Image.fromarray(PIXELS[:, :, ::-1].copy())
    (buffer,) = run_unit(DECODER, {"in_encoded_image": [image]}, pix_fmt="rgb")["out_image"]
    np.testing.assert_array_equal(buffer.data, PIXELS[:, :, ::-1])
    assert buffer.get("pix_fmt") == "rgb"
    said = error_of(DECODER, "in_encoded_image", image, "out_image", max_pixels=23)
    assert "got a Pillow image of 4 x 6 = 24 pixels; expected 1 to 23" in said


def test_an_image_whose_file_is_cut_off_is_an_error_of_its_item():
    file = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    cut = Image.open(io.BytesIO(file.getvalue()[:3000]))
    said = error_of(RESIZE, "in_image", cut, "out_image", image_width=2, image_height=2)
    assert "in_image: got a Pillow image that cannot be read" in said


def test_a_graph_takes_it_and_a_unit_of_ones_own_gets_it_as_it_is():
    @modelflow.flowunit
    def mode(image):
        return image.mode

    image = Image.new("RGBA", (3, 2))
    graph = "digraph { input [type=input] mode output [type=output] input -> mode -> output }"
    with modelflow.Flow(graph, units=[mode]) as flow:
        assert flow.infer(image).data == "RGBA"
    graph = (
        "digraph { input [type=input] small [flowunit=resize, image_width=2, image_height=1] "
        "output [type=output] input -> small -> output }"
    )
    with modelflow.Flow(graph) as flow:
        assert flow.infer(image).to_pil().size == (2, 1)


def test_a_notebook_shows_an_image_and_the_text_of_what_is_none():
    shown = Image.open(
        io.BytesIO(Buffer(np.zeros((600, 1024, 3), np.uint8), {"pix_fmt": "bgr"})._repr_png_())
    )
    assert shown.size == (512, 300)
    assert Buffer(PIXELS)._repr_png_() is None
    assert Buffer("text", {"pix_fmt": "bgr"})._repr_png_() is None
