"""``mean`` on the CPU."""

from flowunits.mean import MeanOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale


class Mean(FlowUnit):
    """Computes ``x - mean`` in float32, into reused memory."""

    def open(self, config: MeanOptions) -> None:
        """Stores the options."""
        self._scale = ChannelScale(config.mean)

    def process(self, ctx: Context) -> None:
        """Processes the batch; results of equal shape share one block of memory."""
        ctx.emit(self._scale.read_all(ctx.input()))
