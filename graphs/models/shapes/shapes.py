"""Draws circles, squares and triangles for the video and for training."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

NAMES = ("circle", "square", "triangle")
Pixels = npt.NDArray[np.uint8]


def draw(image: Pixels, name: str, box: tuple[int, int, int], color: Any, angle: float) -> None:
    """Draws a shape into ``image``.

    Args:
        image: uint8 (H, W) or (H, W, 3).
        name: One of `NAMES`.
        box: x and y of the centre, and the radius of the circle around the shape, in pixels.
        color: The colour in OpenCV's form.
        angle: The rotation in degrees.
    """
    x, y, radius = box
    if name == "circle":
        cv2.circle(image, (x, y), radius, color, cv2.FILLED, cv2.LINE_AA)
        return
    corners = 4 if name == "square" else 3
    turns = np.radians(angle) + 2 * np.pi * np.arange(corners) / corners
    points = np.stack([x + radius * np.cos(turns), y + radius * np.sin(turns)], axis=1)
    cv2.fillPoly(image, [np.round(points).astype(np.int32)], color, cv2.LINE_AA)
