"""Where gRPC is answered: an address that is taken before anything is loaded."""

import socket

from modelflow.http.endpoint import Endpoint
from modelflow.http.server import bound_socket

__all__ = ["address_of", "grpc_socket", "in_use"]


def grpc_socket(host: str, port: int) -> socket.socket:
    """Returns a socket with an address, which does not listen yet.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    try:
        return bound_socket(Endpoint(host, port))
    except OSError as error:
        raise in_use(error.errno, _text(host, port), error.__cause__) from error


def address_of(bound: socket.socket) -> str:
    """Returns the address of a socket as clients take it: ``127.0.0.1:8500``, ``[::1]:8500``."""
    return _text(*bound.getsockname()[:2])


def in_use(number: int | None, address: str, reason: object) -> OSError:
    """Returns the error that says that nobody can listen there."""
    return OSError(number, f"gRPC at {address}: cannot listen there: {reason}")


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
