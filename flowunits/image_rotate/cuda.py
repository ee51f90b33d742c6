"""``image_rotate`` on CUDA."""

from flowunits.image_rotate import ImageRotateOptions
from flowunits.image_rotate.angle import angle_of
from modelflow import Buffer, Context, FlowUnit
from modelflow.image.tensor import ImageBatch, emit_images, rotate_images


class ImageRotate(FlowUnit):
    """Turns the images of equal size and angle in the batch together."""

    def open(self, config: ImageRotateOptions) -> None:
        """Stores the options."""
        self._angle = config.rotate_angle

    def process(self, ctx: Context) -> None:
        """Turns the batch."""
        emit_images(ctx, _turned, parameter=self._angle_of)

    def _angle_of(self, buffer: Buffer) -> int:
        return angle_of(buffer) if self._angle is None else self._angle


def _turned(images: ImageBatch, angle: int) -> list[Buffer]:
    buffers = rotate_images(images, angle).to_buffers()
    for buffer in buffers:
        buffer.set("rotate_angle", 0)
    return buffers
