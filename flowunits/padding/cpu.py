"""``padding`` on the CPU."""

from flowunits.padding import PaddingOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import interpolation_flag, pad_image, read_image, spread_colour


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
        colour = spread_colour(options.padding_data, image.channel)
        size = options.size(image.width, image.height)
        place = (*options.corner(*size), *size)
        width, height = options.image_width, options.image_height
        return pad_image(image, width, height, place, colour, self._flag).to_buffer()
