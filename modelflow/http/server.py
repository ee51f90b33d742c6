"""The HTTP server (uvicorn) on a thread of its own."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from modelflow.errors import MissingDependencyError
from modelflow.http.endpoint import Endpoint
from modelflow.http.limits import ConnectionLimits

__all__ = ["Server", "bound_socket", "check_tls", "load_uvicorn"]

_BACKLOG = 2048
# How long the end of the server waits for clients that do not take their answers.
_LAST_SECONDS = 5


def load_uvicorn() -> Any:
    """Returns the module ``uvicorn``.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        package = "uvicorn"
        raise MissingDependencyError(package, "serve", "an HTTP unit") from error
    return uvicorn


class Server:
    """Hands every request that comes to a socket to an ASGI application."""

    def __init__(
        self,
        bound: socket.socket,
        application: Callable[..., Any],
        limits: ConnectionLimits,
        *,
        cert: str = "",
        key: str = "",
    ) -> None:
        """Listens, and starts the thread.

        Args:
            bound: A socket with an address (see `bound_socket`); it stays the caller's to close.
            application: Called on the server's thread.
            limits: What the connections may cost.
            cert: The file with the certificate, for https.
            key: The file with its key.

        Raises:
            OSError: somebody else listens there.
            MissingDependencyError: the server's package is not installed.
        """
        uvicorn = load_uvicorn()
        from modelflow.http.connection import Connection, Connections

        self._socket = bound
        bound.listen(_BACKLOG)
        config = uvicorn.Config(
            application,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            http=partial(Connection, Connections(limits)),
            ws="none",
            timeout_keep_alive=max(1, round(limits.keepalive)),
            timeout_graceful_shutdown=_LAST_SECONDS,
            ssl_certfile=cert or None,
            ssl_keyfile=key or None,
        )
        self._server = uvicorn.Server(config)
        host, port = bound.getsockname()[:2]
        self._thread = threading.Thread(
            target=self._main, name=f"modelflow/http/{host}:{port}", daemon=False
        )
        self._thread.start()

    def close(self) -> None:
        """Ends it: no new connections; requests under way are answered first."""
        self._server.should_exit = True
        self._thread.join()

    def _main(self) -> None:
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._server.serve(sockets=[self._socket]))
            loop.run_until_complete(loop.shutdown_asyncgens())


def bound_socket(endpoint: Endpoint) -> socket.socket:
    """Returns a socket with the endpoint's address, which does not listen yet.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Else a port could not be used again while old connections are remembered.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it head and body of an answer are 40 ms apart: the second
        # waits for the first one's acknowledgement, which the client delays
        # (benchmarks/http_load.py).
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((endpoint.host, endpoint.port))
    except OSError as error:
        bound.close()
        message = f"endpoint {endpoint}: cannot listen there: {error.strerror or error}"
        raise OSError(error.errno, message) from error
    return bound


def check_tls(endpoint: Endpoint, cert: str, key: str) -> None:
    """Checks certificate and key.

    Raises:
        ValueError: they are missing, not wanted, or cannot be read.
    """
    if endpoint.is_tls != bool(cert):
        message = (
            f"endpoint {endpoint}: https needs cert and key"
            if endpoint.is_tls
            else f"endpoint {endpoint}: got a cert for http; expected https://..."
        )
        raise ValueError(message)
    if not cert:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key or None)
    except (OSError, ssl.SSLError) as error:
        message = f"endpoint {endpoint}: cert={cert!r}, key={key!r} cannot be read: {error}"
        raise ValueError(message) from error
