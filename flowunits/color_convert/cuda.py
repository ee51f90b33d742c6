"""``color_convert`` on CUDA."""

from flowunits.color_convert import ColorConvertOptions
from modelflow import Context, FlowUnit
from modelflow.image.tensor import ImageBatch, convert_images, emit_images


class ColorConvert(FlowUnit):
    """Converts the images of equal size and format in the batch together."""

    def open(self, config: ColorConvertOptions) -> None:
        """Stores the options."""
        self._pix_fmt = config.out_pix_fmt

    def process(self, ctx: Context) -> None:
        """Converts the batch."""
        emit_images(ctx, self._convert, allow_nv12=True)

    def _convert(self, images: ImageBatch) -> ImageBatch:
        return convert_images(images, self._pix_fmt)
