"""A worker, seen from inside: it reads and writes, and another process computes."""

from modelflow.serve.options import ServeOptions
from modelflow.serve.replicas.frames import Message
from modelflow.serve.replicas.line import Line
from modelflow.serve.replicas.replica import Replica
from modelflow.serve.stock import Stock
from modelflow.serve.workers.mirror import Mirror

__all__ = ["Worker"]


class Worker(Replica):
    """The place of a process that has connections, and no models."""

    def __init__(self, line: Line, start: Message, options: ServeOptions) -> None:
        """Takes its place; see `Replica`. ``options`` are the server's."""
        super().__init__(line, start)
        self._mirror = Mirror(options, self.hatch)

    @property
    def stock(self) -> Stock:
        """The models of the other process."""
        return self._mirror

    async def end(self) -> None:
        """Ends the link to the other process."""
        await self._mirror.close()
