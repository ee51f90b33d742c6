"""A worker, seen from inside: it reads and writes, and another process computes."""

from modelflow.serve.options import ServeOptions
from modelflow.serve.replicas.replica import Replica
from modelflow.serve.stock import Stock

__all__ = ["Worker"]


class Worker(Replica):
    """The place of a process that has connections, and no models."""

    def stock(self, options: ServeOptions) -> Stock:
        """Returns the models of the other processes."""
        return self.join_far(options, None)
