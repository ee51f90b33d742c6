"""A process that takes connections, seen from inside, where others have models for it."""

from modelflow.serve.options import ServeOptions
from modelflow.serve.replicas.frames import Message
from modelflow.serve.replicas.line import Line
from modelflow.serve.replicas.replica import Replica
from modelflow.serve.replicas.role import Role
from modelflow.serve.stock import Stock
from modelflow.serve.workers.far_stock import FarStock

__all__ = ["Worker"]


class Worker(Replica):
    """The place of a process that has no models, or all but those that are isolated."""

    _far: FarStock

    def __init__(self, line: Line, start: Message) -> None:
        """Takes its place; see `Replica`."""
        super().__init__(line, start)
        self._has_models = start["role"] == Role.REPLICA

    def stock(self, options: ServeOptions) -> Stock | None:
        """Returns the models of the other processes; None: it has some itself."""
        return None if self._has_models else self._join(options, None)

    def extend(self, own: Stock, options: ServeOptions) -> Stock:
        """Returns its own models, and those of the other processes."""
        return self._join(options, own)

    def _join(self, options: ServeOptions, own: Stock | None) -> Stock:
        self._far = FarStock(options, self.hatch, self.isolated, own)
        return self._far

    async def end(self) -> None:
        """Ends the links to the other processes."""
        await self._far.close()
