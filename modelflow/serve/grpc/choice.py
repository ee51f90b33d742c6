"""The server that answers gRPC: grpcio's, or our own. Services and answers are the same."""

import logging
import socket
from collections.abc import Iterable
from typing import Protocol

from modelflow.http.options import TlsOptions
from modelflow.http.server import GuestServer
from modelflow.serve.access.middleware import Middleware
from modelflow.serve.grpc.limits import GrpcLimits
from modelflow.serve.grpc.service import Service
from modelflow.serve.grpc.standard_services import Health
from modelflow.serve.options import GrpcKind

logger = logging.getLogger(__name__)


class GrpcGuest(GuestServer, Protocol):
    """A server of gRPC."""

    address: str
    """Where it answers: ``127.0.0.1:8500``."""


class _Make(Protocol):
    def __call__(
        self,
        bound: socket.socket,
        services: Iterable[Service],
        limits: GrpcLimits,
        health: Health,
        middleware: Middleware | None = None,
        tls: TlsOptions | None = None,
    ) -> GrpcGuest: ...


def server_of(kind: GrpcKind) -> _Make:
    """Returns what makes a server.

    Raises:
        MissingDependencyError: its package is not installed.
    """
    if kind is GrpcKind.AUTO:
        kind = GrpcKind.GRPCIO
    logger.info("gRPC is answered by the server %r", str(kind))
    if kind is GrpcKind.NATIVE:
        from modelflow.serve.grpc.http2.server import Http2Server

        return Http2Server
    from modelflow.serve.grpc.grpcio_server import GrpcServer

    return GrpcServer
