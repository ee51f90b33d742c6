"""``crop`` on the CPU."""

import numpy as np

from flowunits.crop import CropOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_box, read_image


class Crop(FlowUnit):
    """Copies the region, so that the whole image need not stay in memory for it."""

    def open(self, config: CropOptions) -> None:
        """Takes the options."""
        self._fixed = Box(config.x, config.y, config.w, config.h)

    def process(self, ctx: Context) -> None:
        """Crops each buffer by itself."""
        if "in_region" in ctx.inputs:
            ctx.emit_each(
                lambda image, region: _cropped(image, read_box(region.data)),
                "in_image",
                "in_region",
            )
        else:
            ctx.emit_each(self._crop_fixed)

    def _crop_fixed(self, buffer: Buffer) -> Buffer:
        if not (self._fixed.w and self._fixed.h):
            message = "got no region; expected in_region to be connected, or the options w and h"
            raise ValueError(message)
        return _cropped(buffer, self._fixed)


def _cropped(buffer: Buffer, region: Box) -> Buffer:
    image = read_image(buffer)
    x, y, w, h = (int(value) for value in region[:4])
    is_inside = x >= 0 and y >= 0 and x + w <= image.width and y + h <= image.height
    if not is_inside or w < 1 or h < 1:
        message = (
            f"in_region: got x={x}, y={y}, w={w}, h={h}; expected a region of at least one pixel "
            f"inside the image of {image.width} x {image.height} pixels"
        )
        raise ValueError(message)
    out = image.like(w, h)
    for source, target in zip(image.planes, out.planes, strict=True):
        np.copyto(target, source[y : y + h, x : x + w])
    return out.to_buffer()
