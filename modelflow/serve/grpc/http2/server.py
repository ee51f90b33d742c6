"""The native gRPC server, which runs on the event loop of an HTTP server."""

import asyncio
import contextlib
import errno

from modelflow.errors import MissingDependencyError
from modelflow.http.accept import BACKLOG, arrivals
from modelflow.http.connections import Connections
from modelflow.http.server import server_context
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.grpc.address import in_use, own_socket
from modelflow.serve.grpc.http2.method_table import MethodTable
from modelflow.serve.grpc.server import GrpcServer

try:
    from modelflow.serve.grpc.http2.connection import GrpcConnection
except ImportError as error:
    raise MissingDependencyError("zttp", "serve-fast", "--grpc-server native") from error


class Http2Server(GrpcServer):
    """The native gRPC server on HTTP/2."""

    _table: MethodTable | None = None

    async def start(self) -> None:
        """Starts the server, as in `GrpcServer.start`."""
        tls = None if self._options.tls is None else server_context(self._options.tls, "h2")
        connections = Connections(self._options.connections, LoopQueue(asyncio.get_running_loop()))
        table = MethodTable(
            self._services, self._middleware, self._options, self._budget, connections
        )
        self._listening = contextlib.AsyncExitStack()
        try:
            own = own_socket(self._bound)
            self._listening.callback(own.close)
            own.listen(BACKLOG)
            entered = arrivals(
                own, connections, tls, lambda before=None: GrpcConnection(table, before)
            )
            await self._listening.enter_async_context(entered)
        except OSError as error:
            await self._listening.aclose()
            raise in_use(errno.EADDRINUSE, self.address, error) from error
        self._table = table

    async def close(self, seconds: float) -> None:
        """Stops the server, as in `GrpcServer.close`."""
        table = self._table
        if table is None:
            return
        self._health.close()
        await self._listening.aclose()
        for call in tuple(table.calls):
            call.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(table.connections.wait_until_ended(), seconds)
        table.connections.abort()
