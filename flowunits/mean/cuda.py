"""``mean`` on CUDA."""

from flowunits.mean import MeanOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale
from modelflow.image.tensor import emit_scaled


class Mean(FlowUnit):
    """float32 ``x - mean``, all data of one shape at once."""

    def open(self, config: MeanOptions) -> None:
        """Takes the options."""
        self._scale = ChannelScale(config.mean)

    def process(self, ctx: Context) -> None:
        """Works on the batch."""
        emit_scaled(ctx, self._scale)
