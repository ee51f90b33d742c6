"""An HTTP server as what is loaded: a thread and a lasting connection for each request at once.

With 8 connections: eight requests are under way, the ninth has no room until one is answered.
"""

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from modelflow.errors import ConfigError

__all__ = ["HttpCall", "HttpTarget"]

# Bytes of an answer that are read; more is an outcome of its own.
_MOST = 1 << 28


@dataclass(eq=False)
class HttpCall:
    """One request.

    Attributes:
        body: What is sent.
        kind: Its content type.
        on_end: Who is told.
        outcome: What became of it.
    """

    body: bytes
    kind: str
    on_end: "Callable[[HttpCall], None]"
    outcome: str = "not sent"
    is_cancelled: bool = field(default=False)


class HttpTarget:
    """A URL that is asked again and again, while its ``with`` block runs; see `Target`."""

    def __init__(
        self,
        url: str,
        bodies: Sequence[tuple[bytes, str]],
        *,
        connections: int,
        headers: Mapping[str, str] | None = None,
        method: str = "",
        timeout: float = 30.0,
    ) -> None:
        """Connects to nothing yet.

        Args:
            url: Where; ``http://`` or ``https://``.
            bodies: What is sent, in turns, each with its content type; none: nothing is.
            connections: How many requests there are room for at once.
            headers: Sent with each.
            method: ``GET``, ``POST`` or another; none: POST where there is a body.
            timeout: Seconds that a connection, and each part of an answer, may take.

        Raises:
            ConfigError: the URL is none.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            message = f"{url}: expected a URL that begins with http:// or https://"
            raise ConfigError(message)
        self._https = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._bodies = list(bodies)
        self._method = method or ("POST" if bodies else "GET")
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._calls: queue.SimpleQueue[HttpCall | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = connections
        self._is_over = False
        self._connections: list[http.client.HTTPConnection] = []
        self._on_room: Callable[[], None] | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"modelflow-load/{number}")
            for number in range(connections)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends every connection; where the block raised, without waiting for answers."""
        self._is_over = True
        for _ in self._threads:
            self._calls.put(None)
        if kind is not None:
            with self._lock:
                for connection in self._connections:
                    _cut(connection)
        for thread in self._threads:
            thread.join()

    def make(self, number: int, on_end: Callable[[HttpCall], None]) -> HttpCall:
        """Returns request ``number``."""
        body, kind = self._bodies[number % len(self._bodies)] if self._bodies else (b"", "")
        return HttpCall(body, kind, on_end)

    def submit(
        self, requests: Sequence[HttpCall], on_room: Callable[[], None]
    ) -> Sequence[HttpCall]:
        """Sends as many as there are connections free."""
        with self._lock:
            count = min(len(requests), self._free)
            self._free -= count
            self._on_room = on_room if count < len(requests) else None
        for request in requests[:count]:
            self._calls.put(request)
        return requests[count:]

    def outcome(self, request: HttpCall) -> str:
        """Returns ``ok``, ``HTTP 503``, or the type of what was raised."""
        return request.outcome

    def cancel(self, request: HttpCall) -> None:
        """Leaves a request unsent, if it is; one that was sent is waited for."""
        request.is_cancelled = True

    def _work(self) -> None:
        connection = self._connection()
        with self._lock:
            self._connections.append(connection)
        while (call := self._calls.get()) is not None:
            if not (call.is_cancelled or self._is_over):
                try:
                    call.outcome = self._ask(connection, call)
                except (OSError, http.client.HTTPException) as error:
                    call.outcome = type(error).__name__
                    connection.close()  # the next one opens it again
            with self._lock:
                self._free += 1
                told, self._on_room = self._on_room, None
            call.on_end(call)
            if told is not None:
                told()
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._https:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _ask(self, connection: http.client.HTTPConnection, call: HttpCall) -> str:
        headers = {**({"Content-Type": call.kind} if call.kind else {}), **self._headers}
        connection.request(self._method, self._path, call.body or None, headers)
        answer = connection.getresponse()
        if len(answer.read(_MOST + 1)) > _MOST:
            connection.close()
            return "too long"
        return "ok" if 200 <= answer.status < 300 else f"HTTP {answer.status}"


def _cut(connection: http.client.HTTPConnection) -> None:
    """Ends a connection under whoever waits for it."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):  # it has ended by itself
            connection.sock.shutdown(socket.SHUT_RDWR)
