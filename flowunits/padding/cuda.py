"""``padding`` on CUDA."""

from flowunits.padding import PaddingOptions
from modelflow import Context, FlowUnit
from modelflow.image import spread_colour
from modelflow.image.tensor import ImageBatch, emit_images, pad_images, resize_images


class Padding(FlowUnit):
    """Resizes and pads the images of equal size in the batch together."""

    def open(self, config: PaddingOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Pads the batch."""
        emit_images(ctx, self._pad)

    def _pad(self, images: ImageBatch) -> ImageBatch:
        options = self._options
        colour = spread_colour(options.padding_data, images.channel)
        width, height = options.size(images.width, images.height)
        inner = resize_images(images, width, height, options.interpolation)
        corner = options.corner(width, height)
        return pad_images(inner, *corner, options.image_width, options.image_height, colour)
