"""``image_encoder`` on the CPU."""

from flowunits.image_encoder import ImageEncoderOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import convert_color, opencv, read_image


class ImageEncoder(FlowUnit):
    """Encodes with OpenCV."""

    def open(self, config: ImageEncoderOptions) -> None:
        """Takes the options."""
        self._format = "jpeg" if config.format == "jpg" else config.format
        cv2 = opencv()
        self._parameters = {
            "jpeg": [cv2.IMWRITE_JPEG_QUALITY, config.quality],
            "webp": [cv2.IMWRITE_WEBP_QUALITY, config.quality],
        }.get(self._format, [])

    def process(self, ctx: Context) -> None:
        """Encodes each buffer by itself."""
        ctx.emit_each(self._encode)

    def _encode(self, buffer: Buffer) -> Buffer:
        cv2 = opencv()
        image = read_image(buffer, allow_nv12=True)
        target = "gray" if image.pix_fmt == "gray" else "bgr"
        pixels = convert_color(image, target, "hwc").data
        try:
            _, encoded = cv2.imencode(f".{self._format}", pixels, self._parameters)
        except cv2.error as error:
            message = (
                f"in_image: got {image.width} x {image.height} pixels, which {self._format} "
                f"cannot hold: {error.err}"
            )
            raise ValueError(message) from error
        return Buffer(encoded.tobytes(), {"format": self._format})
