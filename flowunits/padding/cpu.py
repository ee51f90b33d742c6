"""``padding`` on the CPU."""

import numpy as np

from flowunits.padding import PaddingOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import interpolation_flag, opencv, read_image


class Padding(FlowUnit):
    """Resizes each image directly into its place in the output."""

    def open(self, config: PaddingOptions) -> None:
        """Stores the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)

    def process(self, ctx: Context) -> None:
        """Pads each buffer separately."""
        ctx.emit_each(self._pad)

    def _pad(self, buffer: Buffer) -> Buffer:
        options = self._options
        image = read_image(buffer)
        colour = options.colour(image.channel)
        width, height = options.size(image.width, image.height)
        x, y = options.corner(width, height)
        out = image.like(options.image_width, options.image_height)
        fills = [colour[at : at + 1] for at in range(len(colour))] if image.is_planar else [colour]
        for source, target, fill in zip(image.planes, out.planes, fills, strict=True):
            if (width, height) != (out.width, out.height):
                target[...] = fill
            inner = target[y : y + height, x : x + width]
            if (width, height) == (image.width, image.height):
                np.copyto(inner, source)
            else:
                opencv().resize(source, (width, height), dst=inner, interpolation=self._flag)
        return out.to_buffer()
