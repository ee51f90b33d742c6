"""``letterbox`` on the CPU."""

from flowunits.letterbox import LetterboxOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import interpolation_flag, pad_image, read_image, spread_colour


class Letterbox(FlowUnit):
    """Resizes each image directly into its place in the output."""

    def open(self, config: LetterboxOptions) -> None:
        """Stores the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)

    def process(self, ctx: Context) -> None:
        """Fits each buffer separately."""
        ctx.emit_each(self._fit)

    def _fit(self, buffer: Buffer) -> Buffer:
        options = self._options
        image = read_image(buffer)
        place = options.place(image.width, image.height)
        width, height = options.image_width, options.image_height
        colour = spread_colour(options.padding_data, image.channel)
        fitted = pad_image(image, width, height, place, colour, self._flag).to_buffer()
        fitted.set("letterbox", (*place, image.width, image.height))
        return fitted
