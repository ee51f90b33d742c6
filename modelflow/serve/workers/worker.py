"""A worker, seen from inside: it reads and writes, and another process computes."""

from modelflow.serve.options import ServeOptions
from modelflow.serve.replicas.replica import Replica
from modelflow.serve.stock import Stock
from modelflow.serve.workers.mirror import Mirror

__all__ = ["Worker"]


class Worker(Replica):
    """The place of a process that has connections, and no models."""

    def stock(self, options: ServeOptions) -> Stock:
        """Returns the models of the other process."""
        self._mirror = Mirror(options, self.hatch)
        return self._mirror

    async def end(self) -> None:
        """Ends the link to the other process."""
        await self._mirror.close()
