"""The address at which gRPC is answered, taken before anything listens there. Without grpcio."""

import socket

from modelflow.http.options import Endpoint, join_address
from modelflow.http.server import bind_socket


def grpc_socket(host: str, port: int) -> socket.socket:
    """Returns a socket with an address, which does not listen yet.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    try:
        return bind_socket(Endpoint(host, port))
    except OSError as error:
        raise in_use(error.errno, join_address(host, port), error.__cause__) from error


def share(bound: socket.socket) -> None:
    """Lets several processes of this user listen at the address of a socket, each by itself."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def is_shared(bound: socket.socket) -> bool:
    """Tells whether several processes listen at the address of a socket."""
    return bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


def own_socket(bound: socket.socket) -> socket.socket:
    """Returns a socket with the same address to listen at, which is the caller's to close.

    Where it is shared that is another one: what connects to it is met by nobody else.

    Raises:
        OSError: somebody else has the address.
    """
    if not is_shared(bound):
        return bound.dup()
    own = socket.socket(bound.family, bound.type)
    try:
        share(own)
        own.bind(bound.getsockname())
    except OSError:
        own.close()
        raise
    return own


def address_of(bound: socket.socket) -> str:
    """Returns the address of a socket as clients take it: ``127.0.0.1:8500``, ``[::1]:8500``."""
    return join_address(*bound.getsockname()[:2])


def in_use(number: int | None, address: str, reason: object) -> OSError:
    """Returns what is raised where nothing can listen at an address."""
    return OSError(number, f"gRPC at {address}: cannot listen there: {reason}")
