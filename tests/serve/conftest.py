"""Servers of gRPC, of each kind."""

import pytest

from modelflow.serve import server
from modelflow.serve.grpc.choice import server_of
from modelflow.serve.options import GrpcKind


@pytest.fixture(scope="module", params=[GrpcKind.NATIVE, GrpcKind.GRPCIO], ids=str)
def grpc_server(request):
    """Runs each test with each gRPC server as the default; server fixtures request this fixture."""
    kind = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            server, "server_of", lambda asked: server_of(kind if asked is GrpcKind.AUTO else asked)
        )
        yield kind
