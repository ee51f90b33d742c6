"""``padding`` on the CPU."""

import numpy as np

from flowunits.padding import PaddingOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Image, interpolation_flag, opencv, read_image

_SHARE = {"top": 0, "left": 0, "center": 1, "bottom": 2, "right": 2}


class Padding(FlowUnit):
    """Resizes straight into its place in the output."""

    def open(self, config: PaddingOptions) -> None:
        """Takes the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)

    def process(self, ctx: Context) -> None:
        """Pads each buffer by itself."""
        ctx.emit_each(self._pad)

    def _pad(self, buffer: Buffer) -> Buffer:
        options = self._options
        image = read_image(buffer)
        colour = self._colour(image)
        width, height = self._size(image)
        x = (options.image_width - width) * _SHARE[options.horizontal_align] // 2
        y = (options.image_height - height) * _SHARE[options.vertical_align] // 2
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

    def _colour(self, image: Image) -> tuple[int, ...]:
        given = self._options.padding_data
        if len(set(given)) == 1:
            return given[:1] * image.channel
        if len(given) != image.channel:
            message = (
                f"in_image: got {image.channel} channels for {len(given)} values of "
                "'padding_data'; expected one value a channel"
            )
            raise ValueError(message)
        return given

    def _size(self, image: Image) -> tuple[int, int]:
        width, height = self._options.image_width, self._options.image_height
        if not self._options.need_scale:
            if image.width > width or image.height > height:
                message = (
                    f"in_image: got {image.width} x {image.height} pixels; expected at most "
                    f"{width} x {height}; set need_scale=true to shrink it"
                )
                raise ValueError(message)
            return image.width, image.height
        # In whole numbers, so that the side that limits is met exactly.
        if image.width * height >= image.height * width:
            return width, max(1, image.height * width // image.width)
        return max(1, image.width * height // image.height), height
