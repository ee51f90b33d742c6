"""``color_convert`` on the CPU."""

from flowunits.color_convert import ColorConvertOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import convert_color, read_image


class ColorConvert(FlowUnit):
    """Converts with OpenCV into reused memory. An image in the output format passes unchanged."""

    def open(self, config: ColorConvertOptions) -> None:
        """Stores the options."""
        self._pix_fmt = config.out_pix_fmt

    def process(self, ctx: Context) -> None:
        """Converts each buffer separately."""
        ctx.emit_each(self._convert)

    def _convert(self, buffer: Buffer) -> Buffer:
        return convert_color(read_image(buffer, allow_nv12=True), self._pix_fmt).to_buffer()
