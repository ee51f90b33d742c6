"""Tests of resize with antialias against Pillow's pixels."""

import sys

import numpy as np
import pytest
from PIL import Image

from flowunits.resize import SPEC
from modelflow import ConfigError
from modelflow.errors import FlowFailed
from modelflow.testing import run_unit
from tests.flowunits.conftest import planar_buffer

FILTERS = {
    "inter_linear": Image.Resampling.BILINEAR,
    "inter_cubic": Image.Resampling.BICUBIC,
    "inter_area": Image.Resampling.BOX,
    "inter_lanczos4": Image.Resampling.LANCZOS,
}
SIZES = [(32, 24), (318, 24), (17, 400), (640, 400)]


def resized(data, size, interpolation):
    width, height = size
    options = {"width": width, "height": height, "interpolation": interpolation}
    (buffer,) = run_unit(SPEC, {"in_image": [data]}, antialias=True, **options)["out_image"]
    assert not buffer.has_error(), buffer.get_error_msg()
    return np.asarray(buffer.data)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("interpolation", FILTERS)
def test_the_pixels_are_pillows(photo, interpolation, size):
    expected = np.asarray(Image.fromarray(photo).resize(size, FILTERS[interpolation]))
    np.testing.assert_array_equal(resized(photo, size, interpolation), expected)
    planar = resized(planar_buffer(photo), size, interpolation)
    np.testing.assert_array_equal(planar.transpose(1, 2, 0), expected)
    gray = resized(photo[:, :, 1], size, interpolation)
    np.testing.assert_array_equal(gray[:, :, 0], expected[:, :, 1])


def test_it_is_not_what_opencv_gives(photo):
    (plain,) = run_unit(SPEC, {"in_image": [photo]}, width=32, height=24)["out_image"]
    assert np.abs(resized(photo, (32, 24), "inter_linear") - plain.data.astype(int)).max() > 20


def test_nearest_neighbours_have_nothing_to_smooth(photo):
    with pytest.raises(ConfigError, match="got 'inter_nearest' with antialias=true; expected one"):
        resized(photo, (32, 24), "inter_nearest")


def test_without_pillow_it_says_what_to_install(photo, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises((FlowFailed, ImportError), match=r"pip install 'modelflow-graph\[pillow\]'"):
        resized(photo, (32, 24), "inter_linear")
