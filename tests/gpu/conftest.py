"""The device of the tests of the CUDA path, and their inputs.

The fixture ``cuda`` is a GPU if the machine has a GPU. Otherwise it is torch's memory on the CPU
under that name, with libjpeg-turbo in place of nvJPEG. A test that makes no sense there (streams,
CUDA graphs) has the mark ``cuda``.

The tests run without an installed modelflow, with the packages in ``benchmarks/gpu_machine.md``.
Therefore the pictures are generated.
"""

import cv2
import numpy as np
import pytest
import simplejpeg

from flowunits.image_decoder import nvjpeg
from modelflow.device import Device, memory_of
from modelflow.device.torch_memory import load_torch
from tests import torch_as_cuda
from tests.flowunits.conftest import encode  # noqa: F401 - a fixture
from tests.gpu.fake_cuda import FakeCuda

torch = load_torch()

# The mean over an image, out of 255. Enlarging chroma by repetition alone gives 2.1 to 2.5 for
# ordinary pictures, with another DCT 3.1 at quality 1.
_NVJPEG_DIFFERENCE = 5.0


def pytest_configure(config):
    # Users have TorchScript models, and the tests must make them.
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit:DeprecationWarning")


def decode_as_nvjpeg(encoded, is_gray, device):
    """Returns the images that nvJPEG would give, decoded by libjpeg-turbo."""
    found = []
    for tensor in encoded:
        try:
            pixels = simplejpeg.decode_jpeg(
                tensor.numpy(),
                "GRAY" if is_gray else "RGB",
                fastdct=False,
                fastupsample=False,
                strict=True,
            )
        except ValueError as error:
            raise RuntimeError(str(error)) from error
        found.append(torch.from_numpy(pixels.transpose(2, 0, 1).copy()).to(device))
    return found


def jpeg_difference():
    """Returns the largest mean difference of two images; 0 if libjpeg-turbo replaces nvJPEG."""
    return _NVJPEG_DIFFERENCE if torch_as_cuda.has_gpu() else 0.0


@pytest.fixture(autouse=True)
def cuda(request, monkeypatch):
    """Yields the device ``cuda:0``."""
    is_gpu = torch_as_cuda.has_gpu()
    if not is_gpu and request.node.get_closest_marker("cuda"):
        pytest.skip("needs a GPU")
    torch_as_cuda.install(monkeypatch)
    if not is_gpu:
        monkeypatch.setattr(nvjpeg, "load_torchvision_io", lambda: None)
        monkeypatch.setattr(nvjpeg, "decode_jpegs", decode_as_nvjpeg)
    yield Device("cuda", 0)
    if is_gpu:
        torch.cuda.synchronize()  # a kernel's error belongs to the test that launched the kernel


@pytest.fixture
def fake_cuda(cuda, monkeypatch):
    """Yields recording streams and graphs in place of torch's."""
    if torch_as_cuda.has_gpu():
        pytest.skip("is for machines without a GPU")
    yield FakeCuda(monkeypatch)
    nvjpeg._memory_stream.cache_clear()


@pytest.fixture
def memory(cuda):
    """Returns the memory of the device."""
    return memory_of(cuda.kind)


def made_up_picture(width, height, seed):
    """Returns BGR like a photograph's: large smooth fields of colour, edges, and a little noise."""
    random = np.random.default_rng(seed)
    fields = random.integers(0, 256, (height // 24 + 2, width // 24 + 2, 3), np.uint8)
    pixels = cv2.resize(fields, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(6):
        centre = tuple(int(random.integers(0, side)) for side in (width, height))
        colour = tuple(int(value) for value in random.integers(0, 256, 3))
        cv2.circle(pixels, centre, int(random.integers(8, 60)), colour, -1, cv2.LINE_AA)
    noise = random.normal(0, 3, pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def photo():
    """Returns a picture with odd sides: uint8 (201, 319, 3), BGR."""
    return made_up_picture(319, 201, 1)


@pytest.fixture(scope="session")
def other_photo():
    """Returns another image of another size: uint8 (427, 640, 3), BGR."""
    return made_up_picture(640, 427, 2)
