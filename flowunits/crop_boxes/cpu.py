"""``crop_boxes`` on the CPU."""

import numpy as np

from flowunits.crop_boxes import CropBoxesOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import (
    Box,
    Image,
    interpolation_flag,
    opencv,
    read_boxes,
    read_image,
)


class CropBoxes(FlowUnit):
    """Copies each box. A view would keep the whole image in memory."""

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
        x, y, w, h = place
        size = self._options.image_width or w, self._options.image_height or h
        out = image.like(*size)
        for source, target in zip(image.planes, out.planes, strict=True):
            part = source[y : y + h, x : x + w]
            if size == (w, h):
                np.copyto(target, part)
            else:
                opencv().resize(part, size, dst=target, interpolation=self._flag)
        crop = out.to_buffer()
        own = {"score": box.score, "class_id": box.class_id, "label": box.label}
        crop.meta.update(box=tuple(box[:4]), **own, box_index=number)
        return crop
