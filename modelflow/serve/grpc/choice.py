"""Chooses the gRPC server, grpcio's or the native server. Both have the same services."""

import logging

from modelflow.serve.grpc.server import GrpcServer
from modelflow.serve.options import GrpcKind

logger = logging.getLogger(__name__)


def server_of(kind: GrpcKind) -> type[GrpcServer]:
    """Returns the class of a gRPC server.

    Raises:
        MissingDependencyError: The package of the server is not installed.
    """
    if kind is GrpcKind.AUTO:
        kind = GrpcKind.GRPCIO
    logger.info("the gRPC server is %r", str(kind))
    if kind is GrpcKind.NATIVE:
        from modelflow.serve.grpc.http2.server import Http2Server

        return Http2Server
    from modelflow.serve.grpc.grpcio_server import GrpcioServer

    return GrpcioServer
