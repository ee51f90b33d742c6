"""``image_preprocess`` on the CPU."""

from flowunits.image_preprocess import ImagePreprocessOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import ChannelScale, convert_color, read_image


class ImagePreprocess(FlowUnit):
    """Moves bytes first and turns them into float32 once, where they belong."""

    def open(self, config: ImagePreprocessOptions) -> None:
        """Takes the options."""
        self._options = config
        self._scale = ChannelScale(config.mean, config.standard_deviation_inverse)

    def process(self, ctx: Context) -> None:
        """Works on each buffer by itself."""
        ctx.emit_each(self._preprocess)

    def _preprocess(self, buffer: Buffer) -> Buffer:
        options = self._options
        image = read_image(buffer, allow_nv12=options.out_pix_fmt is not None)
        pix_fmt = options.out_pix_fmt or image.pix_fmt.removesuffix("p")
        image = convert_color(image, pix_fmt, options.output_layout)
        out = image.to_buffer()
        self._scale.check_channels(image.data.shape, image.layout, "in_image")
        out.data = self._scale.apply(image.data, image.layout)
        return out
