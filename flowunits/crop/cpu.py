"""``crop`` on the CPU."""

import numpy as np

from flowunits.crop import CropOptions
from flowunits.crop.region import fixed_region, pixels_of, ports_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import read_box, read_image


class Crop(FlowUnit):
    """Copies the region. A view would keep the whole image in memory."""

    def open(self, config: CropOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Crops each buffer separately."""
        ctx.emit_each(self._crop, *ports_of(ctx))

    def _crop(self, buffer: Buffer, region: Buffer | None = None) -> Buffer:
        image = read_image(buffer)
        box = fixed_region(self._options) if region is None else read_box(region.data)
        x, y, w, h = pixels_of(box, image)
        out = image.like(w, h)
        for source, target in zip(image.planes, out.planes, strict=True):
            np.copyto(target, source[y : y + h, x : x + w])
        return out.to_buffer()
