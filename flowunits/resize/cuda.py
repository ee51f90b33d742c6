"""``resize`` on CUDA."""

from flowunits.resize import ResizeOptions
from modelflow import Context, FlowUnit
from modelflow.image.tensor import ImageBatch, emit_images, resize_images


class Resize(FlowUnit):
    """Resizes the images of equal size in the batch together."""

    def open(self, config: ResizeOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Resizes the batch."""
        emit_images(ctx, self._resize)

    def _resize(self, images: ImageBatch) -> ImageBatch:
        width, height = self._options.size(images.width, images.height)
        return resize_images(
            images, width, height, self._options.interpolation, antialias=self._options.antialias
        )
