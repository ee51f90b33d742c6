"""``resize`` on the CPU."""

from flowunits.resize import ResizeOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import (
    interpolation_flag,
    opencv,
    pillow_image,
    read_image,
    smoothly_resized,
)


class Resize(FlowUnit):
    """Resizes with OpenCV, or Pillow, into reused memory.

    An image of the wanted size passes as it is.
    """

    def open(self, config: ResizeOptions) -> None:
        """Takes the options."""
        self._options = config
        self._flag = interpolation_flag(config.interpolation)
        if config.antialias:
            pillow_image("resize with antialias=true")  # now, not with the first image

    def process(self, ctx: Context) -> None:
        """Resizes each buffer by itself."""
        ctx.emit_each(self._resize)

    def _resize(self, buffer: Buffer) -> Buffer:
        image = read_image(buffer)
        width, height, _ = image.size
        size = self._options.size(width, height)
        if size == (width, height):
            return image.to_buffer()
        out = image.like(*size)
        if self._options.antialias:
            smoothly_resized(image, out, self._options.interpolation)
            return out.to_buffer()
        cv2 = opencv()
        for source, target in zip(image.planes, out.planes, strict=True):
            cv2.resize(source, size, dst=target, interpolation=self._flag)
        return out.to_buffer()
