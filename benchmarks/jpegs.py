"""Synthetic JPEGs with the size and the decoding cost of photographs."""

import cv2
import numpy as np

__all__ = ["make_jpeg"]


def make_jpeg(width: int, height: int, seed: int = 0) -> bytes:
    """Returns a JPEG of quality 85: smooth fields of colour with noise, 60 KiB at 640x480."""
    random = np.random.default_rng(seed)
    fields = random.integers(0, 256, (height // 16, width // 16, 3), np.uint8)
    pixels = cv2.resize(fields, (width, height), interpolation=cv2.INTER_CUBIC)
    pixels = cv2.add(pixels, random.integers(0, 12, pixels.shape, np.uint8))
    return bytes(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 85])[1])
