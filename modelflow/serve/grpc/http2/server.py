"""The server that is ours: gRPC on HTTP/2 connections of our own, on the loop of an HTTP server."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterable

from modelflow.errors import MissingDependencyError
from modelflow.http.accept import BACKLOG, arrivals
from modelflow.http.connections import Connections
from modelflow.http.options import TlsOptions
from modelflow.http.server import server_context
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.address import address_of, in_use, own_socket
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.serve.grpc.limits import GrpcLimits
from modelflow.serve.grpc.service import Service
from modelflow.serve.grpc.standard_services import Health, Reflection

try:
    from modelflow.serve.grpc.http2.connection import GrpcConnection
except ImportError as error:
    package = "zttp"
    raise MissingDependencyError(package, "serve-fast", "--grpc-server native") from error


class Http2Server:
    """Answers calls on the event loop of an HTTP server; see `GuestServer`."""

    def __init__(
        self,
        bound: socket.socket,
        services: Iterable[Service],
        limits: GrpcLimits,
        health: Health,
        middleware: Middleware | None = None,
        tls: TlsOptions | None = None,
    ) -> None:
        """Takes what to answer; `start` begins.

        Args:
            bound: A socket with the address (see `grpc_socket`); the caller's to close.
            services: What there is to call; health and reflection are added.
            limits: What calls may cost.
            health: What probes are told.
            middleware: What every call passes first.
            tls: Certificate and key.

        Raises:
            ConfigError: they are not to be used.
        """
        self.address = address_of(bound)
        """Where it answers: ``127.0.0.1:8500``."""
        self._limits = limits
        self._middleware = middleware or Middleware()
        self._tls = None if tls is None else server_context(tls, "h2")
        self._health = health
        known = [*services, *health.services]
        self._services = (*known, *Reflection(known).services)
        self._board: MethodTable | None = None
        self._bound = bound
        self._listening = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Begins to answer.

        Raises:
            OSError: somebody else listens there.
        """
        connections = Connections(self._limits.connections, LoopQueue(asyncio.get_running_loop()))
        board = MethodTable(self._services, self._middleware, self._limits, connections)
        try:
            own = own_socket(self._bound)
            self._listening.callback(own.close)
            own.listen(BACKLOG)
            entered = arrivals(
                own, connections, self._tls, lambda before=None: GrpcConnection(board, before)
            )
            await self._listening.enter_async_context(entered)
        except OSError as error:
            await self._listening.aclose()
            raise in_use(errno.EADDRINUSE, self.address, error) from error
        self._board = board

    async def close(self, seconds: float) -> None:
        """Ends it: no new calls, no further messages in streams; those that came are answered.

        May be called again before it has ended: the shortest time counts.

        Args:
            seconds: How long it waits for that; then it gives up what is left.
        """
        board = self._board
        if board is None:
            return
        self._health.close()
        await self._listening.aclose()
        for call in tuple(board.calls):
            call.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(board.connections.wait_until_ended(), seconds)
        board.connections.abort()
