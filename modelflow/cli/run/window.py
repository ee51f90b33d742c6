"""A window on a running flow: ``/metrics`` for Prometheus, ``/stats`` for programs, over HTTP.

It has the gate of the dashboard: pages of other sites are refused, whatever they call this address.
"""

import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from modelflow.cli.terminal.listening import explain_address, split_address
from modelflow.http.options import join_address
from modelflow.http.request import RequestHead, split_target
from modelflow.profile.metrics import FlowCollector, metrics_app
from modelflow.studio.gate import TokenCheck

if TYPE_CHECKING:
    from modelflow.runtime.stats import FlowStats


# Seconds that a client may take for its request, one after the other.
_PATIENCE = 1


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def setup(self) -> None:
        """Has the whole request come in time, not each part of it."""
        super().setup()
        self.rfile = io.BufferedReader(_Coming(self.connection, time.monotonic() + _PATIENCE))

    def parse_request(self) -> bool:
        """Reads the head; of one with several hosts nothing is answered but that."""
        if not super().parse_request():
            return False
        hosts = self.headers.get_all("host", [])
        if len(hosts) > 1:
            text = f"the request has {len(hosts)} Host headers; expected one"
            self.send_error(HTTPStatus.BAD_REQUEST, text)
            return False
        self.path, host = split_target(self.path)
        if host is not None:
            del self.headers["host"]
            self.headers["host"] = host
        return True

    def handle(self) -> None:
        """Answers; of a client that has gone, or takes too long, nothing is said."""
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Says nothing: a scrape every few seconds is no news."""


class _Coming(io.RawIOBase):
    """What comes on a connection until a moment; behind that it is a `TimeoutError`."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            message = "the request takes too long"
            raise TimeoutError(message)
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(_PATIENCE)  # of what is sent


class Window:
    """Answers while its ``with`` block runs; on a thread of its own."""

    def __init__(
        self,
        address: str,
        stats: "Callable[[], FlowStats]",
        snapshot: Callable[[], dict[str, Any]],
    ) -> None:
        """Listens.

        Args:
            address: ``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``; without a host 127.0.0.1; port 0:
                any that is free.
            stats: Gives the flow's figures; from any thread.
            snapshot: Gives its snapshot's document.

        Raises:
            click.UsageError: the address is wrong.
            ConfigError: it is taken.
        """
        host, port = split_address("--metrics", address)
        self._metrics = metrics_app(FlowCollector(lambda: [stats()]))
        self._snapshot = snapshot
        with explain_address("--metrics", address):
            self._server = make_server(
                host, port, self._answer, server_class=_server_class(host), handler_class=_Handler
            )
        self._gate = TokenCheck(host, self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="modelflow-cli/metrics"
        )

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        return f"http://{join_address(str(host), port)}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            start("405 Method Not Allowed", [("Allow", "GET, HEAD")])
            return [b""]
        refusal = self._gate.refusal(_head_of(environ), is_secret=False, method=method)
        if refusal is not None:
            status = HTTPStatus(refusal.status)
            start(f"{status.value} {status.phrase}", list(refusal.headers.items()))
            return [refusal.body]
        match environ["PATH_INFO"]:
            case "/metrics":
                answer: Iterable[bytes] = self._metrics(environ, start)
                return answer
            case "/stats":
                body = json.dumps(self._snapshot()).encode()
                start("200 OK", [("Content-Type", "application/json")])
                return [body]
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"there are /metrics and /stats\n"]


def _head_of(environ: dict[str, Any]) -> RequestHead:
    """Returns of a request what the gate looks at."""
    named = {b"host": environ.get("HTTP_HOST"), b"origin": environ.get("HTTP_ORIGIN")}
    headers = [(name, value.encode("latin-1")) for name, value in named.items() if value]
    return RequestHead(environ["REQUEST_METHOD"], environ["PATH_INFO"], headers)


def _server_class(host: str) -> type[WSGIServer]:
    class Server(WSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server
