"""Fits images into a size with their ratio kept, and adds bars around them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from modelflow.image.image import Image
from modelflow.image.opencv import opencv

_Plane = npt.NDArray[np.uint8]
Place = tuple[int, int, int, int]
"""The position x, y and the size w, h of an image in a larger image, in pixels."""


def fit_size(width: int, height: int, most: tuple[int, int]) -> tuple[int, int]:
    """Returns the largest size of the same ratio that fits into ``most``, in whole pixels.

    The limiting side is met exactly. The other side is rounded to the nearest pixel and is at least
    one. A half is rounded to the even number, as in Python and in most letterboxes. Example: 640 x
    427 into 224 x 224 is 224 x 149.

    Args:
        width: The width of the image.
        height: The height of the image.
        most: The width and height to fit into.
    """
    most_width, most_height = most
    # Compares in whole numbers, which finds the limiting side exactly.
    if width * most_height >= height * most_width:
        return most_width, max(1, round(height * most_width / width))
    return max(1, round(width * most_height / height)), most_height


def pad_image(
    image: Image, width: int, height: int, place: Place, colour: Sequence[int], flag: int
) -> Image:
    """Resizes an image into its place in a larger image, and fills the bars around.

    Args:
        image: The image, in any format but nv12.
        width: The width of the result.
        height: The height of the result.
        place: The part of the result that the image takes.
        colour: The colour of the bars, one value for each channel.
        flag: The interpolation, as `interpolation_flag` returns it.
    """
    x, y, w, h = place
    out = image.like(width, height)
    fills = [colour[at : at + 1] for at in range(len(colour))] if image.is_planar else [colour]
    for source, target, fill in zip(image.planes, out.planes, fills, strict=True):
        if (w, h) != (width, height):
            target[...] = fill
        _copy_plane(source, target[y : y + h, x : x + w], flag)
    return out


def cut_image(
    image: Image, place: Place, size: tuple[int, int] | None = None, flag: int = 0
) -> Image:
    """Copies a part of an image. A view would keep the whole image in memory.

    Args:
        image: The image, in any format but nv12.
        place: The part, inside the image.
        size: The width and height of the result. None for those of the part.
        flag: The interpolation for another size, as `interpolation_flag` returns it.
    """
    x, y, w, h = place
    out = image.like(*(size or (w, h)))
    for source, target in zip(image.planes, out.planes, strict=True):
        _copy_plane(source[y : y + h, x : x + w], target, flag)
    return out


def _copy_plane(source: _Plane, target: _Plane, flag: int) -> None:
    """Copies pixels (H, W, C), and resizes them to the size of the target."""
    height, width = target.shape[:2]
    if source.shape[:2] == (height, width):
        np.copyto(target, source)
    else:
        opencv().resize(source, (width, height), dst=target, interpolation=flag)


def spread_colour(values: tuple[int, ...], channel: int) -> tuple[int, ...]:
    """Returns the colour of the bars, one value for each channel.

    Args:
        values: One value for each channel, or equal values in any number.
        channel: The number of channels of the image.

    Raises:
        ValueError: There are values for another number of channels.
    """
    if len(set(values)) == 1:
        return values[:1] * channel
    if len(values) != channel:
        raise ValueError(
            f"in_image: got {channel} channels for {len(values)} values of 'padding_data'; "
            "expected one value a channel"
        )
    return values
