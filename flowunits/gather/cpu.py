"""``gather`` on the CPU."""

from typing import Any

from flowunits.gather import GatherOptions
from modelflow import Buffer, Context, FlowUnit


class Gather(FlowUnit):
    """Makes one list of a stream."""

    def open(self, config: GatherOptions) -> None:
        """Stores the options."""
        self._meta, self._key = config.meta, config.key

    def process(self, ctx: Context) -> None:
        """Emits the list of one stream."""
        ctx.emit([[self._value(buffer) for buffer in ctx.input()]])

    def _value(self, buffer: Buffer) -> Any:
        meta = buffer.all_meta()
        found = {key: meta.get(key) for key in self._meta}
        if buffer.error is not None:
            return {**found, "error": buffer.get_error_msg()}
        return {**found, self._key: buffer.data} if self._meta else buffer.data
