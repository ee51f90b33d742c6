"""``center_crop`` on the CPU."""

import numpy as np

from flowunits.center_crop import CenterCropOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import read_image


class CenterCrop(FlowUnit):
    """Copies the middle. An image that already has the output size passes unchanged."""

    def open(self, config: CenterCropOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Crops each buffer separately."""
        ctx.emit_each(self._crop)

    def _crop(self, buffer: Buffer) -> Buffer:
        image = read_image(buffer)
        width, height = self._options.image_width, self._options.image_height
        x, y = self._options.corner(image.width, image.height)
        if (image.width, image.height) == (width, height):
            return image.to_buffer()
        out = image.like(width, height)
        for source, target in zip(image.planes, out.planes, strict=True):
            np.copyto(target, source[y : y + height, x : x + width])
        return out.to_buffer()
