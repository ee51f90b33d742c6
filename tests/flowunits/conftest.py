"""Real photographs, as pixels and encoded."""

import io

import numpy as np
import pytest
from PIL import Image as PilImage

from modelflow import Buffer


def sample_image(name):
    """Returns a photograph of scikit-learn's, BGR; other tests use this module alone."""
    from sklearn.datasets import load_sample_image

    return load_sample_image(name)[..., ::-1]


@pytest.fixture(scope="session")
def photo():
    """Returns a photograph with odd sides: uint8 (201, 319, 3), BGR."""
    return np.ascontiguousarray(sample_image("china.jpg")[:201, :319])


@pytest.fixture(scope="session")
def other_photo():
    """Returns another image of another size: uint8 (427, 640, 3), BGR."""
    return np.ascontiguousarray(sample_image("flower.jpg"))


@pytest.fixture(scope="session")
def encode():
    """Returns a function from BGR or gray pixels to the bytes of a format of Pillow's."""

    def encoded(pixels, image_format="JPEG", mode=None, **settings):
        pixels = pixels[..., ::-1] if pixels.ndim == 3 else pixels
        image = PilImage.fromarray(np.ascontiguousarray(pixels))
        stream = io.BytesIO()
        (image.convert(mode) if mode else image).save(stream, image_format, **settings)
        return stream.getvalue()

    return encoded


@pytest.fixture(scope="session")
def planar(photo):
    """Returns the photograph as a planar buffer (3, H, W)."""
    return planar_buffer(photo)


def planar_buffer(pixels):
    """Returns a buffer of packed BGR pixels, planar."""
    height, width, channel = pixels.shape
    return Buffer(
        np.ascontiguousarray(pixels.transpose(2, 0, 1)),
        {"width": width, "height": height, "channel": channel, "pix_fmt": "bgr", "layout": "chw"},
    )
