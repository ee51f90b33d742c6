"""Tests of ``image_decoder`` on pictures of other programs, compared with Pillow."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from flowunits import image_decoder
from modelflow.testing import run_unit
from tests.flowunits.pictures import PICTURES, is_there, written

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
