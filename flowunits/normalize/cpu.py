"""``normalize`` on the CPU."""

from flowunits.normalize import NormalizeOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale


class Normalize(FlowUnit):
    """NumPy's float32 ``(x - mean) * standard_deviation_inverse``, into reused memory."""

    def open(self, config: NormalizeOptions) -> None:
        """Takes the options."""
        self._scale = ChannelScale(config.mean, config.standard_deviation_inverse)

    def process(self, ctx: Context) -> None:
        """Works on the batch; those of one shape lie side by side."""
        ctx.emit(self._scale.read_all(ctx.input()))
