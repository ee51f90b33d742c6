"""``center_crop`` on CUDA."""

from flowunits.center_crop import CenterCropOptions
from modelflow import Context, FlowUnit
from modelflow.image.tensor import ImageBatch, crop_images, emit_images


class CenterCrop(FlowUnit):
    """Copies the middle of the images of equal size in the batch together."""

    def open(self, config: CenterCropOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Crops the batch."""
        emit_images(ctx, self._crop)

    def _crop(self, images: ImageBatch) -> ImageBatch:
        x, y = self._options.corner(images.width, images.height)
        return crop_images(images, x, y, self._options.image_width, self._options.image_height)
