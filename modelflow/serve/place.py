"""What one of several processes that serve together has in place of addresses of its own."""

import socket
from collections.abc import Collection
from typing import Protocol

from modelflow.http.accept import InheritedConnections
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.activity import ActivityTable
from modelflow.serve.fleet import ReplicaGroup
from modelflow.serve.options import ServeOptions
from modelflow.serve.stock import Stock


class ConnectionSource(Protocol):
    """Who is given connections, and is not alone.

    Attributes:
        door: Where connections over HTTP are handed over.
        grpc: A socket with the address for gRPC, at which all of them listen; None: no gRPC.
        unloaded: The models that clients have unloaded before it came.
        activity: Where it is noted what is done for each version.
        is_part: Some models are isolated: it has one of them alone, or none of them.
    """

    door: InheritedConnections
    grpc: socket.socket | None
    unloaded: Collection[str]
    activity: ActivityTable
    is_part: bool

    def stock(self, options: ServeOptions) -> Stock | None:
        """Returns what it serves whose models another process has; None: it has its own."""

    def extend(self, own: Stock, options: ServeOptions) -> Stock:
        """Returns what it serves beside its own models."""

    def join(self, own: Stock) -> ReplicaGroup:
        """Returns what changes what all serve, of which ``own`` is what this one does."""

    async def end(self) -> None:
        """Ends what it has on that thread, when all requests have come to their end."""

    def begin(self, mailbox: LoopQueue) -> None:
        """Begins to be asked, and told, on the thread of this mailbox."""
