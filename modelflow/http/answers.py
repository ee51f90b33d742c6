"""The replies of one connection, sent in the order of the requests."""

from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

from modelflow.http.reply import Reply
from modelflow.http.request import HttpRequest, StreamingReply, StreamingResponse

_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_PHRASES = {int(status): status.phrase for status in HTTPStatus}


def head_of(reply: Reply | StreamingReply, *, is_last: bool, is_kept: bool) -> bytes:
    """Returns status line and headers, with the empty line.

    Args:
        reply: The reply.
        is_last: Whether the connection ends after this reply.
        is_kept: Whether the client uses HTTP/1.0 and keeps the connection open.
    """
    start = _start(reply.status, *reply.headers.items())
    if reply.own:
        start = b"\r\n".join((start, *map(_line, reply.own.items())))
    if isinstance(reply, StreamingReply):
        length = b"" if is_kept else b"\r\ntransfer-encoding: chunked"
    elif reply.status in _NO_BODY:
        length = b""
    else:
        length = b"\r\ncontent-length: %d" % len(reply.body)
    if is_last:
        length += b"\r\nconnection: close"
    elif is_kept:
        length += b"\r\nconnection: keep-alive"
    return start + length + _date_line(int(time()))


@lru_cache(maxsize=256)  # most replies of a second share their head
def plain_head(status: int, length: int, now: int, *headers: tuple[str, str]) -> bytes:
    """Returns the head of an HTTP/1.1 reply after which the connection stays open.

    Args:
        status: The HTTP status, which must allow a body.
        length: Bytes of the body.
        now: Seconds since 1970.
        headers: Further headers, names and values.
    """
    return b"%b\r\ncontent-length: %d%b" % (_start(status, *headers), length, _date_line(now))


@lru_cache(maxsize=64)
def _start(status: int, *headers: tuple[str, str]) -> bytes:
    line = f"HTTP/1.1 {int(status)} {_PHRASES.get(int(status), 'Unknown')}"
    return b"\r\n".join((line.encode(), *map(_line, headers)))


def _line(header: tuple[str, str]) -> bytes:
    name, value = header
    return f"{name}: {value}".encode("latin-1", "replace")


@lru_cache(maxsize=1)
def _date_line(now: int) -> bytes:
    return f"\r\ndate: {formatdate(now, usegmt=True)}\r\n\r\n".encode()


class Answers:
    """The unanswered requests of a connection, and the replies that wait for earlier replies.

    Call the methods on the server's thread.

    Attributes:
        owed: The requests without a complete reply, in order. Callers may read and append.
        last: The last request, after whose reply the connection ends. Later requests are not read.
        is_old: Whether the client uses HTTP/1.0.
        is_writable: Whether the transport accepts data for the client.
    """

    def __init__(
        self, write: Callable[[bytes], None], deliver: Callable[[HttpRequest, bytes], None]
    ) -> None:
        """Starts without requests.

        Args:
            write: Sends bytes to the client.
            deliver: Sends the bytes that complete the reply to a request and to all earlier
                requests.
        """
        self.last: HttpRequest | None = None
        self.is_old = False
        self.is_writable = True
        self._write = write
        self._deliver = deliver
        self.owed: deque[HttpRequest] = deque()
        # The replies that wait for the replies to earlier requests.
        self._replies: dict[HttpRequest, Reply | StreamingReply] = {}
        self._body_stream: StreamingResponse | None = None  # the streamed reply that is being sent

    def end(self) -> None:
        """Accepts no further requests after the unanswered requests."""
        self.last = self.last or self.owed[-1]

    def give(self, http_request: HttpRequest, reply: Reply | StreamingReply) -> None:
        """Sends a reply after all earlier replies, and then the later replies that are ready."""
        if self.is_old and isinstance(reply, StreamingReply):
            self.last = http_request  # HTTP/1.0 ends such a body by closing
        owed = self.owed
        if (
            len(owed) == 1 and owed[0] is http_request and type(reply) is Reply
        ):  # no earlier request waits
            owed.popleft()
            body = reply.body
            if http_request is self.last or self.is_old or not body:
                data = head_of(reply, is_last=http_request is self.last, is_kept=self.is_old)
            else:  # the status allows a body, because there is one
                data = plain_head(reply.status, len(body), int(time()), *reply.headers.items())
                if reply.own:  # inserts the headers before the empty line
                    data = b"\r\n".join((data[:-4], *map(_line, reply.own.items()), b"\r\n"))
            if http_request.head.method != "HEAD":
                data += body
            self._deliver(http_request, data)
            return
        self._replies[http_request] = reply
        if self._body_stream is None:
            self._flush()

    def _flush(self) -> None:
        """Sends the replies whose earlier replies are all sent."""
        parts: list[bytes] = []
        http_request = None
        while self.owed and (reply := self._replies.pop(self.owed[0], None)):
            is_last = self.owed[0] is self.last
            parts.append(head_of(reply, is_last=is_last, is_kept=self.is_old))
            if isinstance(reply, StreamingReply):
                self._write(b"".join(parts))
                self._body_stream = self._open_stream()
                reply.begin(self._body_stream)
                return
            http_request = self.owed.popleft()
            if http_request.head.method != "HEAD":
                parts.append(reply.body)
            if is_last:
                break
        if http_request is not None:
            self._deliver(http_request, b"".join(parts))

    def _open_stream(self) -> StreamingResponse:
        room = lambda: self.is_writable  # noqa: E731 - a method would be one line of three
        return StreamingResponse(self._write, room, self._on_stream_end, is_chunked=not self.is_old)

    def _on_stream_end(self) -> None:
        assert self._body_stream is not None  # this is the stream's callback
        http_request = self.owed.popleft()
        http_request.over(self._body_stream.sent)
        self._body_stream = None
        self._deliver(http_request, b"")
        if http_request is not self.last:
            self._flush()

    def go_on(self) -> None:
        """Resumes the streamed reply after the client has read data."""
        if self._body_stream is not None:
            self._body_stream.on_room()

    def drop(self) -> None:
        """Cancels the unanswered requests because the client has gone."""
        pending, self.owed = self.owed, deque()
        replies, self._replies = self._replies, {}
        body_stream, self._body_stream = self._body_stream, None
        if body_stream is not None:
            pending.popleft().on_cancel(body_stream.sent)
        for http_request in pending:
            http_request.on_cancel()
        for reply in replies.values():
            # its maker must see `on_gone`, even before its turn
            if isinstance(reply, StreamingReply):
                never = self._open_stream()
                reply.begin(never)
                never.on_cancel()
        if body_stream is not None:
            body_stream.on_cancel()
