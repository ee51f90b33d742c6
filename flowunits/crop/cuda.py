"""``crop`` on CUDA."""

from flowunits.crop import CropOptions
from flowunits.crop.region import fixed_region, pixels_of, ports_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_box
from modelflow.image.tensor import ImageBatch, crop_images, emit_images


class Crop(FlowUnit):
    """Crops images that have the same size and the same region together."""

    def open(self, config: CropOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Crops the batch."""
        emit_images(ctx, _cropped, *ports_of(ctx), parameter=self._region)

    def _region(self, _image: Buffer, region: Buffer | None = None) -> Box:
        if region is None:
            return fixed_region(self._options)
        # score and class do not matter: they would split the groups of equal regions
        return Box(*read_box(region.data)[:4])


def _cropped(images: ImageBatch, region: Box) -> ImageBatch:
    return crop_images(images, *pixels_of(region, images))
