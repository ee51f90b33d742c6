"""``crop`` on the CPU."""

from flowunits.crop import CropOptions
from flowunits.crop.region import fixed_region, pixels_of, ports_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import cut_image, read_box, read_image


class Crop(FlowUnit):
    """Copies the region."""

    def open(self, config: CropOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Crops each buffer separately."""
        ctx.emit_each(self._crop, *ports_of(ctx))

    def _crop(self, buffer: Buffer, region: Buffer | None = None) -> Buffer:
        image = read_image(buffer)
        box = fixed_region(self._options) if region is None else read_box(region.data)
        return cut_image(image, pixels_of(box, image)).to_buffer()
