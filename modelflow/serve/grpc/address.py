"""Binds the address for gRPC before a server listens. This module does not import grpcio."""

import socket

from modelflow.files.unix_socket import address_parts, bind_unix_socket, is_unix
from modelflow.http.options import Endpoint, join_address
from modelflow.http.server import bind_socket


def grpc_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address and does not listen yet.

    Raises:
        OSError: The address is in use, or does not belong to this machine.
    """
    if is_unix(host):
        return bind_unix_socket(host)
    try:
        return bind_socket(Endpoint(host, port))
    except OSError as error:
        raise in_use(error.errno, join_address(host, port), error.__cause__) from error


def share(bound: socket.socket) -> None:
    """Lets several processes of this user listen at the same address, by ``SO_REUSEPORT``.

    Processes share a Unix socket itself instead.
    """
    if bound.family == socket.AF_UNIX:
        return
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def is_shared(bound: socket.socket) -> bool:
    """Returns whether several processes may listen at the address of a socket."""
    return bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


def own_socket(bound: socket.socket) -> socket.socket:
    """Returns a socket to listen at the same address. The caller closes the socket.

    For a shared address, the result is a separate socket, with its own queue of connections. Other
    processes do not accept connections from this queue.

    Raises:
        OSError: Another program has the address.
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
    """Returns the address of a socket for clients: ``127.0.0.1:8500`` or ``unix:PATH``."""
    return join_address(*address_parts(bound))


def in_use(number: int | None, address: str, reason: object) -> OSError:
    """Returns the error for an address at which the server cannot listen."""
    return OSError(number, f"gRPC at {address}: cannot listen there: {reason}")
