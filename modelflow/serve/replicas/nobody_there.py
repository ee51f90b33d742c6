"""What clients are answered over HTTP while no process serves: 503, and that the server lives."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, cast

__all__ = ["NobodyThere"]

# What is still read of a client that was answered, so that the answer arrives: seconds.
_LAST_SECONDS = 2.0
_LONGEST_HEAD = 64 << 10
_MOST = 1000
_LIVE = ("/livez", "/v2/health/live")
_ERROR = b'{"error":"no process serves now, another takes its place; come again"}'


class NobodyThere:
    """Answers clients in the place of processes that serve. For the loop's thread."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Takes what connections are taken with; None: no TLS."""
        self._tls = tls
        self._answering: set[_Answer] = set()

    def take(self, client: socket.socket) -> None:
        """Answers a client; its socket becomes its own. Beyond so many it is closed."""
        if len(self._answering) >= _MOST:
            client.close()
            return
        loop, answer = asyncio.get_running_loop(), _Answer(self._answering.discard)
        self._answering.add(answer)
        answer.begin(loop.connect_accepted_socket(lambda: answer, client, ssl=self._tls))

    def close(self) -> None:
        """Ends what is left."""
        for answer in tuple(self._answering):
            answer.end()


class _Answer(asyncio.Protocol):
    """One connection: the first request is answered, what comes behind it is dropped."""

    def __init__(self, on_end: "Callable[[_Answer], object]") -> None:
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._is_answered = False

    def begin(self, making: Coroutine[Any, Any, object]) -> None:
        """Has the connection made, and ended in time."""
        loop = asyncio.get_running_loop()
        self._making = loop.create_task(making)
        self._making.add_done_callback(self._look_whether_made)
        self._timer = loop.call_later(_LAST_SECONDS, self.end)

    def _look_whether_made(self, making: "asyncio.Task[object]") -> None:
        if making.cancelled() or making.exception() is not None:  # a TLS handshake that failed
            self._over()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_answered or self._transport is None:
            return
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > _LONGEST_HEAD:
            self._is_answered = True
            self._transport.write(_reply_to(self._head))
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()

    def eof_received(self) -> None:
        self.end()

    def connection_lost(self, _: Exception | None) -> None:
        self._over()

    def _over(self) -> None:
        self._transport = None
        self._timer.cancel()
        self._on_end(self)

    def end(self) -> None:
        self._making.cancel()
        if self._transport is not None:
            self._transport.abort()


def _reply_to(head: bytes) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method in ("GET", "HEAD") and path in _LIVE:
        status, body, more = "200 OK", b"", ""
    else:
        status, body, more = "503 Service Unavailable", _ERROR, "Retry-After: 1\r\n"
    found = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    ).encode()
    return found if method == "HEAD" else found + body
