"""Tests that presets give the results of the frameworks' own functions."""

import importlib
import typing

import numpy as np
import pytest

from flowunits.image_preprocess import SPEC
from modelflow import Buffer, ConfigError
from modelflow.image import PRESETS, PresetName
from modelflow.testing import run_unit
from tests import torch_as_cuda
from tests.flowunits.conftest import planar_buffer

CONVENTIONS = ("imagenet_torch", "imagenet_caffe", "imagenet_tf", "raw", "unit", "clip")
OF_KERAS = sorted(PRESETS.keys() - {*CONVENTIONS})


@pytest.fixture(params=["cpu", "cuda"])
def device(request, monkeypatch):
    if request.param == "cuda":
        torch_as_cuda.install(monkeypatch)
    return request.param


def preprocessed(data, device="cpu", **options):
    (buffer,) = run_unit(SPEC, {"in_image": [data]}, device=device, **options)["out_data"]
    assert not buffer.has_error(), buffer.get_error_msg()
    return np.asarray(buffer.data)


def of_keras(module, pixels, **options):
    applications = importlib.import_module("keras.applications")
    return getattr(applications, module).preprocess_input(pixels.astype(np.float32), **options)


@pytest.mark.parametrize("preset", OF_KERAS)
def test_a_model_of_keras_is_given_what_its_own_function_gives(photo, preset, device):
    rgb = photo[:, :, ::-1]
    found = preprocessed(photo, device, preset=preset)
    np.testing.assert_allclose(found, of_keras(preset, rgb), rtol=1e-6, atol=3e-5)


@pytest.mark.parametrize(
    ("preset", "mode"),
    [("imagenet_torch", "torch"), ("imagenet_caffe", "caffe"), ("imagenet_tf", "tf")],
)
def test_a_convention_is_that_of_keras_by_that_name(photo, preset, mode, device):
    utils = importlib.import_module("keras.applications.imagenet_utils")
    rgb = photo[:, :, ::-1].astype(np.float32)
    found = preprocessed(photo, device, preset=preset, output_layout="chw")
    expected = utils.preprocess_input(rgb, mode=mode).transpose(2, 0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=3e-5)


@pytest.mark.parametrize(
    ("preset", "mean", "deviation"),
    [
        # torchvision's documentation of its ImageNet weights; OpenAI's `clip._transform`.
        ("imagenet_torch", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        (
            "clip",
            (0.48145466, 0.4578275, 0.40821073),
            (0.26862954, 0.26130258, 0.27577711),
        ),
        ("unit", (0, 0, 0), (1, 1, 1)),
    ],
)
def test_a_convention_is_that_of_to_tensor_and_normalize(photo, preset, mean, deviation):
    to_tensor = photo[:, :, ::-1].transpose(2, 0, 1).astype(np.float64) / 255
    shape = (3, 1, 1)
    expected = (to_tensor - np.reshape(mean, shape)) / np.reshape(deviation, shape)
    found = preprocessed(photo, preset=preset, output_layout="chw")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


def test_the_image_may_come_in_any_format(photo):
    expected = preprocessed(photo, preset="imagenet_torch")
    rgb = Buffer(np.ascontiguousarray(photo[:, :, ::-1]), {"pix_fmt": "rgb"})
    for data in (rgb, planar_buffer(photo)):
        np.testing.assert_array_equal(preprocessed(data, preset="imagenet_torch"), expected)
    gray = preprocessed(photo[:, :, :1], preset="imagenet_caffe")
    assert gray.shape == photo.shape


def test_a_preset_stands_alone(photo):
    for more in ({"mean": "1,2,3"}, {"standard_deviation_inverse": 2}, {"out_pix_fmt": "bgr"}):
        (name,) = more
        with pytest.raises(ConfigError, match=f"the preset 'raw' and '{name}'; give one"):
            run_unit(SPEC, {"in_image": [photo]}, preset="raw", **more)
    with pytest.raises(ConfigError, match=r"got 'imagenet_troch'.*did you mean 'imagenet_torch'"):
        run_unit(SPEC, {"in_image": [photo]}, preset="imagenet_troch")


def test_every_name_has_a_preset():
    assert set(typing.get_args(PresetName)) == set(PRESETS)
