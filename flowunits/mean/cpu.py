"""``mean`` on the CPU."""

from flowunits.mean import MeanOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale


class Mean(FlowUnit):
    """``x - mean`` in float32, into reused memory."""

    def open(self, config: MeanOptions) -> None:
        """Takes the options."""
        self._scale = ChannelScale(config.mean)

    def process(self, ctx: Context) -> None:
        """Works on the batch; those of one shape lie side by side."""
        ctx.emit(self._scale.read_all(ctx.input()))
