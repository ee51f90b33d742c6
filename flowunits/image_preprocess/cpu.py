"""``image_preprocess`` on the CPU."""

from flowunits.image_preprocess import ImagePreprocessOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import ChannelScale, convert_color, read_image


class ImagePreprocess(FlowUnit):
    """Moves uint8 pixels to their places first, and then converts them to float32 once."""

    def open(self, config: ImagePreprocessOptions) -> None:
        """Stores the options."""
        self._options = config
        steps = config.steps
        self._pix_fmt = steps.pix_fmt
        self._scale = ChannelScale(steps.mean, steps.scale)

    def process(self, ctx: Context) -> None:
        """Processes the batch; results of equal shape share one block of memory."""
        converted = [self._converted(buffer) for buffer in ctx.input()]
        good = [buffer for buffer in converted if isinstance(buffer, Buffer)]
        layout = self._options.output_layout
        scaled = self._scale.apply_all([(buffer.data, layout) for buffer in good])
        for buffer, data in zip(good, scaled, strict=True):
            buffer.data = data
        ctx.emit(converted)

    def _converted(self, buffer: Buffer) -> Buffer | ValueError:
        options = self._options
        try:
            image = read_image(buffer, allow_nv12=self._pix_fmt is not None)
            pix_fmt = self._pix_fmt or image.pix_fmt.removesuffix("p")
            image = convert_color(image, pix_fmt, options.output_layout)
            self._scale.check_channels(image.data.shape, image.layout, "in_image")
        except ValueError as error:  # the other images of the batch continue
            return error
        return image.to_buffer()
