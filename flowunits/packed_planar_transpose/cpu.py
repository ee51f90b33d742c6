"""``packed_planar_transpose`` on the CPU."""

from modelflow import Buffer, Context, FlowUnit
from modelflow.image import convert_color, read_image


class PackedPlanarTranspose(FlowUnit):
    """Splits the channels into reused memory."""

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(_transposed)


def _transposed(buffer: Buffer) -> Buffer:
    image = read_image(buffer)
    return convert_color(image, image.pix_fmt, "chw").to_buffer()
