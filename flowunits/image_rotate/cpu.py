"""``image_rotate`` on the CPU."""

from flowunits.image_rotate import ImageRotateOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Image, opencv, read_image

_CODES = {90: "ROTATE_90_CLOCKWISE", 180: "ROTATE_180", 270: "ROTATE_90_COUNTERCLOCKWISE"}


class ImageRotate(FlowUnit):
    """Turns with OpenCV into reused memory; an angle of 0 passes the image as it is."""

    def open(self, config: ImageRotateOptions) -> None:
        """Takes the options."""
        self._angle = config.rotate_angle

    def process(self, ctx: Context) -> None:
        """Turns each buffer by itself."""
        ctx.emit_each(self._rotate)

    def _rotate(self, buffer: Buffer) -> Buffer:
        angle = _angle_of(buffer) if self._angle is None else self._angle
        image = read_image(buffer)
        out = (_turned(image, angle) if angle else image).to_buffer()
        out.set("rotate_angle", 0)
        return out


def _angle_of(buffer: Buffer) -> int:
    angle = buffer.get("rotate_angle")
    if isinstance(angle, bool) or not isinstance(angle, int) or angle % 90:
        found = "no meta 'rotate_angle'" if angle is None else f"the meta rotate_angle={angle!r}"
        message = f"in_image: got {found}; expected a multiple of 90, or the option rotate_angle"
        raise ValueError(message)
    return angle % 360


def _turned(image: Image, angle: int) -> Image:
    cv2 = opencv()
    size = (image.width, image.height) if angle == 180 else (image.height, image.width)
    out = image.like(*size)
    for source, target in zip(image.planes, out.planes, strict=True):
        cv2.rotate(source, getattr(cv2, _CODES[angle]), dst=target)
    return out
