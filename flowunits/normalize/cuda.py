"""``normalize`` on CUDA."""

from flowunits.normalize import NormalizeOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale
from modelflow.image.tensor import emit_scaled


class Normalize(FlowUnit):
    """Computes ``(x - mean) * standard_deviation_inverse`` for all data of equal shape together."""

    def open(self, config: NormalizeOptions) -> None:
        """Stores the options."""
        self._scale = ChannelScale(config.mean, config.standard_deviation_inverse)

    def process(self, ctx: Context) -> None:
        """Processes the batch."""
        emit_scaled(ctx, self._scale)
