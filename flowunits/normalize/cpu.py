"""``normalize`` on the CPU."""

from flowunits.normalize import NormalizeOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale


class Normalize(FlowUnit):
    """Computes float32 ``(x - mean) * standard_deviation_inverse`` as NumPy, into reused memory."""

    def open(self, config: NormalizeOptions) -> None:
        """Stores the options."""
        self._scale = ChannelScale(config.mean, config.standard_deviation_inverse)

    def process(self, ctx: Context) -> None:
        """Processes the batch; results of equal shape share one block of memory."""
        ctx.emit(self._scale.read_all(ctx.input()))
