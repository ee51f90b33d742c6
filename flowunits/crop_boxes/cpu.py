"""``crop_boxes`` on the CPU."""

from flowunits.crop_boxes import CropBoxesOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import (
    Box,
    Image,
    cut_image,
    interpolation_flag,
    read_boxes,
    read_image,
)


class CropBoxes(FlowUnit):
    """Copies each box, in its own size or in that of the options."""

    def open(self, config: CropBoxesOptions) -> None:
        """Stores the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)

    def process(self, ctx: Context) -> None:
        """Cuts the boxes out of one image."""
        (buffer,), (region,) = ctx.input("in_image"), ctx.input("in_region")
        image, boxes = read_image(buffer), read_boxes(region.data)
        most = self._options.max_boxes
        if len(boxes) > most:
            raise ValueError(
                f"in_region: got {len(boxes)} boxes for an image; expected at most {most}; set "
                "max_boxes to allow more"
            )
        crops = [self._crop(image, box, number) for number, box in enumerate(boxes)]
        ctx.emit([crop for crop in crops if crop is not None])

    def _crop(self, image: Image, box: Box, number: int) -> Buffer | None:
        place = self._options.place(box, image.width, image.height)
        if place is None:
            return None
        crop = cut_image(image, place, self._options.size, self._flag).to_buffer()
        own = {"score": box.score, "class_id": box.class_id, "label": box.label}
        crop.meta.update(box=tuple(box[:4]), **own, box_index=number)
        return crop
