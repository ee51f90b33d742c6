"""The HTTP server (uvicorn) on a thread of its own."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from modelflow.errors import MissingDependencyError
from modelflow.serve.endpoint import Endpoint

__all__ = ["Server", "load_uvicorn"]

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
    """Listens at one host and port, and hands every request to an ASGI application.

    Attributes:
        endpoint: Where it listens, with the port that was given.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        application: Callable[..., Any],
        *,
        keepalive_timeout: float,
        cert: str = "",
        key: str = "",
    ) -> None:
        """Binds, and starts the thread.

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: certificate or key cannot be read.
        """
        uvicorn = load_uvicorn()
        _check_tls(endpoint, cert, key)
        self._socket = _bound(endpoint)
        port = int(self._socket.getsockname()[1])
        self.endpoint = Endpoint(endpoint.host, port, "/", endpoint.is_tls)
        config = uvicorn.Config(
            application,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=max(1, round(keepalive_timeout)),
            timeout_graceful_shutdown=_LAST_SECONDS,
            ssl_certfile=cert or None,
            ssl_keyfile=key or None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._main, name=f"modelflow/http/{endpoint.host}:{port}", daemon=False
        )
        self._thread.start()

    def close(self) -> None:
        """Ends it: no new connections; requests under way are answered first."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _main(self) -> None:
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._server.serve(sockets=[self._socket]))
            loop.run_until_complete(loop.shutdown_asyncgens())


def _bound(endpoint: Endpoint) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        bound = socket.create_server(
            (endpoint.host, endpoint.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        message = f"endpoint {endpoint}: cannot listen there: {error.strerror or error}"
        raise OSError(error.errno, message) from error
    # Connections inherit it. Without it head and body of an answer are 40 ms apart: the second
    # waits for the first one's acknowledgement, which the client delays (benchmarks/http_load.py).
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _check_tls(endpoint: Endpoint, cert: str, key: str) -> None:
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
