"""``image_preprocess`` on CUDA."""

from flowunits.image_preprocess import ImagePreprocessOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import ChannelScale
from modelflow.image.tensor import ImageBatch, convert_images, emit_images, scale_images


class ImagePreprocess(FlowUnit):
    """Preprocesses the images of equal size and format in the batch together."""

    def open(self, config: ImagePreprocessOptions) -> None:
        """Stores the options."""
        self._options = config
        steps = config.steps
        self._pix_fmt = steps.pix_fmt
        self._scale = ChannelScale(steps.mean, steps.scale)

    def process(self, ctx: Context) -> None:
        """Processes the batch."""
        emit_images(ctx, self._preprocess, allow_nv12=self._pix_fmt is not None)

    def _preprocess(self, images: ImageBatch) -> list[Buffer]:
        pix_fmt = self._pix_fmt or images.pix_fmt.removesuffix("p")
        images = convert_images(images, pix_fmt, self._options.output_layout)
        self._scale.check_channels(tuple(images.data.shape[1:]), images.layout, "in_image")
        buffers = images.to_buffers()
        rows = scale_images(images.data, images.layout, self._scale).unbind(0)
        for buffer, row in zip(buffers, rows, strict=True):
            buffer.data = row
        return buffers
