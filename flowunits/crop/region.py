"""The region that ``crop`` cuts out."""

from flowunits.crop import CropOptions
from modelflow import Context
from modelflow.image import Box
from modelflow.image.image import Pixels

__all__ = ["fixed_region", "pixels_of", "ports_of"]


def ports_of(ctx: Context) -> tuple[str, ...]:
    """Returns the names of the connected ports, beginning with the port of the images."""
    return ("in_image", "in_region") if "in_region" in ctx.inputs else ("in_image",)


def fixed_region(options: CropOptions) -> Box:
    """Returns the region that the options describe.

    Raises:
        ValueError: the options describe no region.
    """
    if not (options.w and options.h):
        raise ValueError(
            "got no region; expected in_region to be connected, or the options w and h"
        )
    return Box(options.x, options.y, options.w, options.h)


def pixels_of(region: Box, image: Pixels) -> tuple[int, int, int, int]:
    """Returns a region's x, y, width and height in whole pixels.

    Raises:
        ValueError: the region leaves the image, or is smaller than a pixel.
    """
    x, y, w, h = (int(value) for value in region[:4])
    is_inside = x >= 0 and y >= 0 and x + w <= image.width and y + h <= image.height
    if not is_inside or w < 1 or h < 1:
        raise ValueError(
            f"in_region: got x={x}, y={y}, w={w}, h={h}; expected a region of at least one pixel "
            f"inside the image of {image.width} x {image.height} pixels"
        )
    return x, y, w, h
