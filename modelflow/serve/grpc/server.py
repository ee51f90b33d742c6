"""The server that is grpcio's: its asyncio form, on the loop of an HTTP server."""

import errno
import socket
from collections.abc import Iterable

from modelflow.errors import MissingDependencyError
from modelflow.http.tls import TlsOptions
from modelflow.serve.grpc.address import address_of, in_use, is_shared
from modelflow.serve.grpc.health import Health
from modelflow.serve.grpc.limits import GrpcLimits
from modelflow.serve.grpc.reflection import Reflection
from modelflow.serve.grpc.service import Service
from modelflow.serve.reception import Reception

try:
    import grpc.aio

    from modelflow.serve.grpc.calls import Calls
except ImportError as error:
    package = "grpcio"
    raise MissingDependencyError(package, "serve", "gRPC") from error

__all__ = ["GrpcServer"]

_MOST = (1 << 31) - 1  # gRPC counts with 32 bits


class GrpcServer:
    """Answers calls on the event loop of an HTTP server; see `modelflow.http.server.Guest`."""

    def __init__(
        self,
        bound: socket.socket,
        services: Iterable[Service],
        limits: GrpcLimits,
        health: Health,
        reception: Reception | None = None,
        tls: TlsOptions | None = None,
    ) -> None:
        """Takes what to answer; `start` begins.

        Args:
            bound: A socket with the address (see `grpc_socket`), which keeps it until `start`
                listens there with one of gRPC's own. The caller's to close then. Where it is shared
                (see `share`) others may listen there, too.
            services: What there is to call; health and reflection are added.
            limits: What calls may cost.
            health: What probes are told.
            reception: What every call passes first.
            tls: Certificate and key, which `server_context` takes.
        """
        self._is_shared = is_shared(bound)
        self.address = address_of(bound)
        """Where it answers: ``127.0.0.1:8500``."""
        self._limits = limits
        self._calls = Calls(limits.messages, reception or Reception())
        self._tls = tls
        self._health = health
        known = [*services, *health.services]
        self._services = (*known, *Reflection(known).services)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Begins to answer.

        Raises:
            OSError: somebody else listens there.
        """
        server = grpc.aio.server(
            options=(
                ("grpc.so_reuseport", int(self._is_shared)),  # else nobody may listen there as well
                ("grpc.max_receive_message_length", min(self._limits.message, _MOST)),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", min(self._limits.streams, _MOST)),
                ("grpc.max_metadata_size", min(self._limits.connections.header_bytes, _MOST)),
                (
                    "grpc.server_handshake_timeout_ms",
                    int(self._limits.connections.header_time_out * 1e3),
                ),
            ),
            maximum_concurrent_rpcs=min(self._limits.calls, _MOST),
        )
        for service in self._services:
            methods = {one.name: self._calls.handler(one) for one in service.methods()}
            handler = grpc.method_handlers_generic_handler(service.name, methods)
            server.add_generic_rpc_handlers((handler,))
        try:
            if self._tls is None:
                server.add_insecure_port(self.address)
            else:
                server.add_secure_port(self.address, _credentials(self._tls))
        except RuntimeError as error:  # all that gRPC says is that it could not
            raise in_use(errno.EADDRINUSE, self.address, error) from error
        await server.start()
        self._server = server

    async def close(self, seconds: float) -> None:
        """Ends it: no new calls, no further messages in streams; those that came are answered.

        Args:
            seconds: How long it waits for that; then it cancels what is left.
        """
        if self._server is None:
            return
        server, self._server = self._server, None
        self._health.close()
        self._calls.close()
        await server.stop(seconds)


def _credentials(tls: TlsOptions) -> grpc.ServerCredentials:
    pair = tls.key.read_bytes(), tls.cert.read_bytes()
    if tls.client_ca is None:
        return grpc.ssl_server_credentials([pair])
    return grpc.ssl_server_credentials(
        [pair], root_certificates=tls.client_ca.read_bytes(), require_client_auth=True
    )
