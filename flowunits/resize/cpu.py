"""``resize`` on the CPU."""

from flowunits.resize import ResizeOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import (
    interpolation_flag,
    opencv,
    pillow_image,
    read_image,
    resize_smoothly,
)


class Resize(FlowUnit):
    """Resizes images with OpenCV or Pillow into reused memory.

    An image that already has the output size passes unchanged.
    """

    def open(self, config: ResizeOptions) -> None:
        """Stores the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)
        if config.antialias:
            # imports Pillow now, to report its absence before the first image
            pillow_image("resize with antialias=true")

    def process(self, ctx: Context) -> None:
        """Resizes each buffer separately."""
        ctx.emit_each(self._resize)

    def _resize(self, buffer: Buffer) -> Buffer:
        image = read_image(buffer)
        width, height, _ = image.size
        size = self._options.size(width, height)
        if size == (width, height):
            return image.to_buffer()
        out = image.like(*size)
        if self._options.antialias:
            resize_smoothly(image, out, self._options.interpolation)
            return out.to_buffer()
        cv2 = opencv()
        for source, target in zip(image.planes, out.planes, strict=True):
            cv2.resize(source, size, dst=target, interpolation=self._flag)
        return out.to_buffer()
