"""``image_encoder`` on the CPU."""

from flowunits.image_encoder import ImageEncoderOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import encode_image, read_image


class ImageEncoder(FlowUnit):
    """Encodes with OpenCV."""

    def open(self, config: ImageEncoderOptions) -> None:
        """Stores the options."""
        self._format = "jpeg" if config.format == "jpg" else config.format
        self._quality = config.quality

    def process(self, ctx: Context) -> None:
        """Encodes each buffer separately."""
        ctx.emit_each(self._encode)

    def _encode(self, buffer: Buffer) -> Buffer:
        image = read_image(buffer, allow_nv12=True)
        return Buffer(encode_image(image, self._format, self._quality), {"format": self._format})
