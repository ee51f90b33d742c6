"""Parses the requests of a connection. This module imports httptools."""

from http import HTTPStatus
from typing import Protocol

import httptools

from modelflow.http.options import ConnectionLimits
from modelflow.http.reply import Body, RefusedError, Reply, reply_of_status
from modelflow.http.request import (
    END,
    LONGEST,
    Handler,
    HeaderCache,
    HttpRequest,
    RequestHead,
    split_marks,
    split_target,
)

_HOST = b"host"
# Headers that need more work than reading a body. The header cache skips requests with them.
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


class LongHeadError(Exception):
    """The error for a head with too many bytes or headers."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"the head of the request has more than {most} {what}")


class Receiver(Protocol):
    """The receiver of parsed requests."""

    def receive(self, head: RequestHead, *, is_kept: bool) -> HttpRequest | None:
        """Returns a request for a head, or None to drop the request.

        ``is_kept`` says whether further requests may follow on the connection.
        """

    def refuse_body(self, http_request: HttpRequest, reply: Reply) -> None:
        """Answers a request before its body. The rest of the body is dropped."""

    def invite_body(self, http_request: HttpRequest) -> None:
        """Sends "100 Continue" to the client, which then sends the body."""


class RequestReader:
    """A parser of the requests of one connection. Call the methods on the server's thread.

    Attributes:
        http_request: The request that is being read or handled.
        body: The body so far, or None if the request has no body or the body is dropped.
        unheard: Bytes received since the last head or the last part of a body.
        is_reading: Whether the request is incomplete.
        is_old: Whether the client uses HTTP/1.0.
    """

    def __init__(
        self, receiver: Receiver, handler: Handler, limits: ConnectionLimits, heads: HeaderCache
    ) -> None:
        """Starts before the first message.

        Args:
            receiver: The receiver of requests.
            handler: The handler of requests.
            limits: The limits on heads.
            heads: The cache of heads that need no parsing.
        """
        self.http_request: HttpRequest | None = None
        self.body: Body | None = None
        self.unheard = 0
        self.is_reading = self.is_old = False
        self._receiver = receiver
        self._handler = handler
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._heads = heads
        self._known = heads.known
        self._head = b""  # the key of the previous message's head, if that was exactly one request
        self._is_within, self._is_kept = False, True
        # the requests that became complete in the current `feed`
        self._whole: list[HttpRequest] = []

    def feed(self, data: bytes) -> bytes:
        """Parses received data.

        Returns:
            The data to feed next. The parser stops after a request to change the protocol, which is
            answered like a normal request.

        Raises:
            LongHeadError: A head exceeds the limits.
            httptools.HttpParserError: The data are no request. Its subclass
                `HttpParserCallbackError` means that the handler has raised an error.
        """
        if self._is_within or not self._is_kept:  # for example a part of a body
            return self._parse(data)
        end = data.find(END, 0, LONGEST) + len(END)
        # A missing END gives data[:3], which is no head.
        known = self._known.get(data[:end]) or self._heads.find_marked(data[:end])
        if known is None or len(data) != end + known[1]:
            return self._parse(data)
        head, length = known
        self.is_old = False
        http_request = self._receiver.receive(head, is_kept=True)
        if http_request is None:
            return b""
        self.http_request = http_request
        try:
            limits = http_request.head.limits or self._handler.begin(http_request)
            body, budget = data[end:], limits.budget
            if length > limits.most or budget.taken + length > budget.most:
                Body(limits, length).add(body)  # raises the matching RefusedError
            budget.taken += length
            http_request.body = body
            self._handler.handle(http_request)
        except RefusedError as error:
            self._receiver.refuse_body(http_request, error.reply)
        except Exception as error:  # the parser wraps errors in its callbacks likewise
            raise httptools.HttpParserCallbackError from error
        self.http_request = None
        return b""

    def _parse(self, data: bytes) -> bytes:
        is_new = not self._is_within
        self.unheard += len(data)
        self._whole.clear()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self._parser = httptools.HttpRequestParser(self)
            return data[error.args[0] :]
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, LongHeadError):
                raise error.__context__ from error
            raise
        if self.unheard > self._limits.header_bytes:
            raise LongHeadError(self._limits.header_bytes, "bytes")
        if is_new and not self._is_within and len(self._whole) == 1:
            self._learn(data, self._whole[0])
        self._whole.clear()
        return b""

    def _learn(self, message: bytes, http_request: HttpRequest) -> None:
        """Caches the head of a message with exactly one request, at its second use in a row.

        Heads that differ each time in more than `split_marks` cuts out are not cached.
        """
        length = len(http_request.body)
        head, self._head = self._head, split_marks(message[: len(message) - length])[0]
        is_plain = not (self.is_old or http_request.head.named.keys() & _NOT_PLAIN)
        if head == self._head and is_plain and (length_of(http_request) or 0) == length:
            self._heads.learn(message, http_request.head, length)

    def drop_body(self) -> None:
        """Discards the body, and gives its bytes back. The rest is dropped on arrival."""
        if self.body is not None:
            self.body.drop()
            self.body = None

    # -- the parser's calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Starts a request."""
        self._is_within = True
        self._target = b""
        self._headers = []

    def on_url(self, part: bytes) -> None:
        """Adds a part of the target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header, or a trailer after the body."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Checks the head and passes the request to the receiver."""
        size = len(self._target) + sum(len(name) + len(value) for name, value in self._headers)
        self.unheard = 0
        if size > self._limits.header_bytes:
            raise LongHeadError(self._limits.header_bytes, "bytes")
        if len(self._headers) > self._limits.headers:
            raise LongHeadError(self._limits.headers, "headers")
        self.is_old = self._parser.get_http_version() == "1.0"
        self._is_kept = self._parser.should_keep_alive()
        http_request = self._receiver.receive(self._make_head(), is_kept=self._is_kept)
        if http_request is None:
            return
        self.http_request, self.is_reading = http_request, True
        try:
            _check_host(http_request.head)
            limits = self._handler.begin(http_request)
            self.body = Body(limits, length_of(http_request))
        except RefusedError as error:
            self._receiver.refuse_body(http_request, error.reply)
        else:
            is_waiting = http_request.head.named.get(b"expect", b"").lower() == b"100-continue"
            if is_waiting and not self.is_old:  # HTTP/1.0 has no "100 Continue"
                self._receiver.invite_body(http_request)

    def _make_head(self) -> RequestHead:
        target, host = split_target(self._target.decode("latin-1"))
        headers = self._headers
        if host is not None:  # replaces the header `host`: RFC 9112, 3.2.2
            headers = [one for one in headers if one[0] != _HOST]
            headers.append((_HOST, host.encode("latin-1")))
        return RequestHead(self._parser.get_method().decode("latin-1"), target, headers)

    def on_body(self, part: bytes) -> None:
        """Adds a part of the body."""
        self.unheard = 0
        if self.body is None:
            return  # the request was refused
        try:
            self.body.add(part)
        except RefusedError as error:
            assert self.http_request is not None  # its body is being read
            self._receiver.refuse_body(self.http_request, error.reply)

    def on_message_complete(self) -> None:
        """Passes the whole request to the handler, unless the request was refused before."""
        self.unheard = 0
        self.is_reading = self._is_within = False
        http_request, body = self.http_request, self.body
        self.body = None
        if http_request is not None and body is not None:
            http_request.body = body.whole()
            self._whole.append(http_request)
            self._handler.handle(http_request)
        self.http_request = None


def _check_host(head: RequestHead) -> None:
    """Raises `RefusedError` for several Host headers: RFC 9112, 3.2.

    A proxy in front may have checked another of these headers than this server.
    """
    count = sum(name == _HOST for name, _ in head.headers)
    if count > 1:
        text = f"the request has {count} Host headers; expected one"
        raise RefusedError(reply_of_status(HTTPStatus.BAD_REQUEST, text))


def length_of(http_request: HttpRequest) -> int | None:
    """Returns the length of a body from the head, or None if the head has no length."""
    value = http_request.head.named.get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
