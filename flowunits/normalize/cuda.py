"""``normalize`` on CUDA."""

from flowunits.normalize import NormalizeOptions
from modelflow import Context, FlowUnit
from modelflow.image import ChannelScale
from modelflow.image.tensor import emit_scaled


class Normalize(FlowUnit):
    """float32 ``(x - mean) * standard_deviation_inverse``, all data of one shape at once."""

    def open(self, config: NormalizeOptions) -> None:
        """Takes the options."""
        self._scale = ChannelScale(config.mean, config.standard_deviation_inverse)

    def process(self, ctx: Context) -> None:
        """Works on the batch."""
        emit_scaled(ctx, self._scale)
