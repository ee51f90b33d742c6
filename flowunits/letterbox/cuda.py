"""``letterbox`` on CUDA."""

from flowunits.letterbox import LetterboxOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import spread_colour
from modelflow.image.tensor import ImageBatch, emit_images, pad_images, resize_images


class Letterbox(FlowUnit):
    """Resizes and pads the images of equal size in the batch together."""

    def open(self, config: LetterboxOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Fits the batch."""
        emit_images(ctx, self._fit)

    def _fit(self, images: ImageBatch) -> list[Buffer]:
        options = self._options
        x, y, w, h = options.place(images.width, images.height)
        colour = spread_colour(options.padding_data, images.channel)
        inner = resize_images(images, w, h, options.interpolation)
        fitted = pad_images(inner, x, y, options.image_width, options.image_height, colour)
        buffers = fitted.to_buffers()
        for buffer in buffers:
            buffer.set("letterbox", (x, y, w, h, images.width, images.height))
        return buffers
