"""``crop_boxes`` on CUDA."""

from flowunits.crop_boxes import CropBoxesOptions, check_count, meta_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, read_boxes, read_image
from modelflow.image.tensor import ImageBatch, crop_images


class CropBoxes(FlowUnit):
    """Copies each box on the GPU. The boxes themselves are in host memory."""

    def open(self, config: CropBoxesOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Cuts the boxes out of one image."""
        (buffer,), (region,) = ctx.input("in_image"), ctx.input("in_region")
        images, boxes = ImageBatch.of([read_image(buffer)]), read_boxes(region.data)
        check_count(len(boxes), self._options)
        crops = [self._crop(images, box, number) for number, box in enumerate(boxes)]
        ctx.emit([crop for crop in crops if crop is not None])

    def _crop(self, images: ImageBatch, box: Box, number: int) -> Buffer | None:
        place = self._options.place(box, images.width, images.height)
        if place is None:
            return None
        (crop,) = crop_images(images, *place).to_buffers()
        crop.meta.update(meta_of(box, number))
        return crop
