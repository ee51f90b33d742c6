"""Resizes images as Pillow does, which smooths images that become smaller."""

import numpy as np

from modelflow.image.image import Image
from modelflow.image.opencv import Interpolation, own_name
from modelflow.pixels import FILTERS, pillow_image


def resize_smoothly(image: Image, out: Image, interpolation: Interpolation) -> None:
    """Writes a resized image into ``out``, with the pixels of ``PIL.Image.resize``.

    Args:
        image: A bgr, rgb or gray image, packed or planar.
        out: The target, of the same format and the wanted size.
        interpolation: An interpolation with a filter (`modelflow.pixels.FILTERS`).

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    images = pillow_image("resize with antialias=true")
    resampling = images.Resampling[FILTERS[own_name(interpolation)]]
    for source, target in zip(image.planes, out.planes, strict=True):
        is_single = source.shape[2] == 1
        pixels = np.ascontiguousarray(source[:, :, 0] if is_single else source)
        resized = images.fromarray(pixels).resize((out.width, out.height), resampling)
        target[:] = np.asarray(resized)[:, :, None] if is_single else np.asarray(resized)
