"""Tests of ``image_decoder`` on pictures of other programs, compared with Pillow."""

import io
import re

import numpy as np
import pytest
from PIL import Image, ImageOps

from flowunits import image_decoder
from modelflow.testing import run_unit
from tests.flowunits.pictures import OTHER, PICTURES, is_there, written

LOSSY = 3  # of 255, between two decoders of JPEG, JPEG 2000 and CMYK


def decode(data, **options):
    (buffer,) = run_unit(image_decoder.SPEC, {"in_encoded_image": [data]}, **options)["out_image"]
    return buffer


def read_by_pillow(data):
    """Returns RGB as read by Pillow, 16 bits as the upper 8; None on failure or floats."""
    try:
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    except OSError:
        return None
    if image.mode in ("I", "F"):
        return None
    if image.mode.startswith("I;16"):
        return np.repeat((np.asarray(image) >> 8)[..., None], 3, 2)
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("which", PICTURES, ids=" ".join)
def test_a_picture_is_read_as_pillow_reads_it_and_refused_where_it_is_cut_off(which, tmp_path):
    if not is_there(which[0]):
        pytest.skip(f"{which[0]} is not installed")
    picture = written(which, tmp_path)
    expected, found = read_by_pillow(picture), decode(picture, pix_fmt="rgb")
    # pictures that neither reads, or that Pillow alone reads because of more than 8 bits
    if found.error is not None:
        is_wide = "values have more than 8 bits" in found.get_error_msg()
        assert expected is None or is_wide
    elif expected is not None:  # else this Pillow cannot read the picture, and no reference exists
        assert found.data.shape == expected.shape
        assert np.abs(found.data.astype(int) - expected).max() <= LOSSY
    whole = decode(picture)
    for kept in (0.3, 0.6, 0.9):  # a cut file has all its pixels, or is refused
        found = decode(picture[: int(len(picture) * kept)])
        if found.error is None:
            assert np.array_equal(found.data, whole.data)
        else:
            assert "image_decoder" in found.get_error_msg()


@pytest.mark.parametrize("which", OTHER, ids=" ".join)
def test_a_picture_of_any_other_format_of_pillow_is_refused_with_what_reads_it(which, tmp_path):
    picture = written(which, tmp_path)
    found = decode(picture)
    if found.error is None:  # another name of a format that is read
        assert np.array_equal(found.data[..., ::-1], read_by_pillow(picture))
    else:
        assert ADVICE.search(found.get_error_msg()), found.get_error_msg()


ADVICE = re.compile(r"; (convert other formats first, for example by |this is .*; \S+ \S+)")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff\x0a" + bytes(40), "this is JPEG XL; djxl of libjxl converts it"),
        (b"\0\0\0\x0cJXL \r\n" + bytes(40), "this is JPEG XL"),
        (b"%PDF-1.7\n", "this is a PDF document; pdftoppm"),
        (b" <svg xmlns=", "this is SVG or other XML; rsvg-convert"),
        (b"<!DOCTYPE html><html>404", "this is a web page; was the image not found?"),
        (b'{"image": "..."}', "this is JSON; json_field takes an image out of JSON"),
        (b"\0\0\0\x20ftypisom" + bytes(30), "video_demuxer reads videos"),
        (b"RIFF\0\0\0\0AVI LIST", "this is a video; video_demuxer reads it"),
        (b"\x1aE\xdf\xa3" + bytes(40), "this is a video"),
        (bytes(128) + b"DICM" + bytes(9), "this is DICOM; pydicom reads it"),
        (b"PK\3\4" + bytes(40), "this is an archive; unpack it first"),
        (b"\x93NUMPY\1\0", "this is a NumPy file; send the array itself"),
        (b"iVBORw0KGgoAAAANSUhEUg", "this is base64 text; send the file itself"),
        (b"data:image/png;base64,iVBORw0KGgo", "this is a data URL; send the file itself"),
        (b"v/1\1" + bytes(40), "this is OpenEXR; the package OpenEXR reads it"),
        (b"#?RADIANCE\n", "this is HDR with floats; cv2.imread reads it"),
        (b"P3\n1 1\n255\n0 0 0\n", "this is PNM as text; ImageMagick converts it"),
        (b"\x07" * 40, "; convert other formats first, for example by ImageMagick"),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_reads_it(data, expected):
    assert expected in decode(data).get_error_msg()


def test_the_message_about_a_cut_off_file_is_the_same_each_time(tmp_path):
    cut = written(("pillow", "AVIF", "", "RGB"), tmp_path)[:32]
    one, two = (decode(cut).get_error_msg() for _ in range(2))
    assert one == two
    assert "a avif image in 32 bytes that Pillow does not read either; expected a whole" in one


@pytest.mark.parametrize("major", ["avif", "mif1"])
def test_an_avif_file_may_have_the_major_brand_of_both_formats(major, tmp_path):
    picture = written(("pillow", "AVIF", "", "RGB"), tmp_path)
    assert picture[4:12] == b"ftypavif"
    found = decode(picture[:8] + major.encode() + picture[12:], pix_fmt="rgb")
    assert found.error is None, found.get_error_msg()
    assert np.abs(found.data.astype(int) - read_by_pillow(picture)).max() <= LOSSY


def test_of_an_animation_the_first_picture_is_read(tmp_path):
    first, second = (Image.new("RGB", (8, 6), color) for color in ("red", "blue"))
    for name in ("GIF", "PNG", "WEBP", "TIFF", "AVIF"):
        file = io.BytesIO()
        first.save(file, name, save_all=True, append_images=[second])
        found = decode(file.getvalue(), pix_fmt="rgb")
        assert found.error is None, found.get_error_msg()
        assert np.abs(found.data.astype(int) - (255, 0, 0)).max() <= 9, name
