"""The address at which gRPC is answered, taken before anything listens there. Without grpcio."""

import socket

from modelflow.http.endpoint import Endpoint
from modelflow.http.server import bound_socket

__all__ = ["address_text", "grpc_socket", "in_use", "is_shared", "share"]


def grpc_socket(host: str, port: int) -> socket.socket:
    """Returns a socket with an address, which does not listen yet.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    try:
        return bound_socket(Endpoint(host, port))
    except OSError as error:
        raise in_use(error.errno, address_text(host, port), error.__cause__) from error


def share(bound: socket.socket) -> None:
    """Lets several processes of this user listen at the address of a socket, each by itself."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def is_shared(bound: socket.socket) -> bool:
    """Tells whether several processes listen at the address of a socket."""
    return bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


def in_use(number: int | None, address: str, reason: object) -> OSError:
    """Returns what is raised where nothing can listen at an address."""
    return OSError(number, f"gRPC at {address}: cannot listen there: {reason}")


def address_text(host: str, port: int) -> str:
    """Returns an address as clients write it: ``127.0.0.1:8500``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
