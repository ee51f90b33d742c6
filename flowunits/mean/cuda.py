"""``mean`` on CUDA."""

from flowunits.mean import MeanOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale
from modelflow.image.tensor import emit_scaled


class Mean(FlowUnit):
    """Computes float32 ``x - mean`` for all data of equal shape together."""

    def open(self, config: MeanOptions) -> None:
        """Stores the options."""
        self._scale = ChannelScale(config.mean)

    def process(self, ctx: Context) -> None:
        """Processes the batch."""
        emit_scaled(ctx, self._scale)
