"""``image_rotate`` on the CPU."""

from flowunits.image_rotate import ImageRotateOptions
from flowunits.image_rotate.angle import angle_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Image, opencv, read_image

_CODES = {90: "ROTATE_90_CLOCKWISE", 180: "ROTATE_180", 270: "ROTATE_90_COUNTERCLOCKWISE"}


class ImageRotate(FlowUnit):
    """Turns images with OpenCV into reused memory. With an angle of 0 an image passes unchanged."""

    def open(self, config: ImageRotateOptions) -> None:
        """Stores the options."""
        self._angle = config.rotate_angle

    def process(self, ctx: Context) -> None:
        """Turns each buffer separately."""
        ctx.emit_each(self._rotate)

    def _rotate(self, buffer: Buffer) -> Buffer:
        angle = angle_of(buffer) if self._angle is None else self._angle
        image = read_image(buffer)
        out = (_turned(image, angle) if angle else image).to_buffer()
        out.set("rotate_angle", 0)
        return out


def _turned(image: Image, angle: int) -> Image:
    cv2 = opencv()
    size = (image.width, image.height) if angle == 180 else (image.height, image.width)
    out = image.like(*size)
    for source, target in zip(image.planes, out.planes, strict=True):
        cv2.rotate(source, getattr(cv2, _CODES[angle]), dst=target)
    return out
