"""Bytes to requests, one after the other. Loads httptools."""

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
    split_target,
)

_HOST = b"host"
# Of requests that say more than that they have a body.
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


class LongHeadError(Exception):
    """A head has too many bytes, or headers."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"the head of the request has more than {most} {what}")


class Receiver(Protocol):
    """Who is told of requests."""

    def receive(self, head: RequestHead, *, is_kept: bool) -> HttpRequest | None:
        """Takes a request whose head is there; None: none is taken any more, and it is dropped.

        ``is_kept``: others may follow it.
        """

    def refuse_body(self, http_request: HttpRequest, reply: Reply) -> None:
        """Answers one whose body is not wanted; what comes of it is dropped."""

    def invite_body(self, http_request: HttpRequest) -> None:
        """Tells the client, who waits for it, to send the body."""


class RequestReader:
    """Reads the requests of one connection. For the server's thread.

    Attributes:
        http_request: What is being read, or handled, at this moment.
        body: Its body, as far as it is there; None: there is none, or it is dropped.
        unheard: Bytes since the last head, or the last part of a body.
        is_reading: The request is not whole yet.
        is_old: The client speaks HTTP/1.0.
    """

    def __init__(
        self, receiver: Receiver, handler: Handler, limits: ConnectionLimits, heads: HeaderCache
    ) -> None:
        """Begins at the beginning of a message.

        Args:
            receiver: Who is told of requests.
            handler: Who answers them.
            limits: What their heads may be.
            heads: Those that need not be read any more.
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
        self._head = b""  # of the message before, where it was one whole request
        self._is_within, self._is_kept = False, True
        self._whole: list[HttpRequest] = []  # the requests that have become so in what is fed

    def feed(self, data: bytes) -> bytes:
        """Reads what came.

        Returns:
            What is to be fed next: it stands behind an offer of another protocol, which is answered
            as the request that it is.

        Raises:
            LongHeadError: a head is over the limits.
            httptools.HttpParserError: this is no request; or, an `HttpParserCallbackError`, whoever
                handles requests has raised.
        """
        if self._is_within or not self._is_kept:  # a piece of a body, say
            return self._parse(data)
        end = data.find(END, 0, LONGEST) + len(END)
        known = self._known.get(data[:end])  # b"\r\n\r\n" alone, or less, is nobody's head
        if known is None or len(data) != end + known[1]:
            return self._parse(data)
        head, length = known
        self.is_old = False
        http_request = self._receiver.receive(head, is_kept=True)
        if http_request is None:
            return b""
        self.http_request = http_request
        try:
            limits = head.limits or self._handler.begin(http_request)
            body, budget = data[end:], limits.budget
            if length > limits.most or budget.taken + length > budget.most:
                Body(limits, length).add(body)  # says why not
            budget.taken += length
            http_request.body = body
            self._handler.handle(http_request)
        except RefusedError as error:
            self._receiver.refuse_body(http_request, error.reply)
        except Exception as error:  # as the parser says it of what it calls
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
        """Keeps the head of a message that was one whole request, if it is the second with it.

        Heads that differ each time, as with an id of the request, are not kept.
        """
        length = len(http_request.body)
        head, self._head = self._head, message[: len(message) - length]
        is_plain = not (self.is_old or http_request.head.named.keys() & _NOT_PLAIN)
        if head == self._head and is_plain and (length_of(http_request) or 0) == length:
            self._heads.learn(message, http_request.head, length)

    def drop_body(self) -> None:
        """Gives back what the body took; the rest of it is not kept."""
        if self.body is not None:
            self.body.drop()
            self.body = None

    # -- the parser's calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begins to read a request."""
        self._is_within = True
        self._target = b""
        self._headers = []

    def on_url(self, part: bytes) -> None:
        """Takes what is asked for."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, also one behind the body."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begins a request."""
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
            if is_waiting and not self.is_old:  # that version knows no answer before the answer
                self._receiver.invite_body(http_request)

    def _make_head(self) -> RequestHead:
        target, host = split_target(self._target.decode("latin-1"))
        headers = self._headers
        if host is not None:  # which then counts, and no header of that name: RFC 9112, 3.2.2
            headers = [one for one in headers if one[0] != _HOST]
            headers.append((_HOST, host.encode("latin-1")))
        return RequestHead(self._parser.get_method().decode("latin-1"), target, headers)

    def on_body(self, part: bytes) -> None:
        """Takes a part of the body."""
        self.unheard = 0
        if self.body is None:
            return  # it was refused, and is dropped
        try:
            self.body.add(part)
        except RefusedError as error:
            assert self.http_request is not None  # its body is being read
            self._receiver.refuse_body(self.http_request, error.reply)

    def on_message_complete(self) -> None:
        """Ends the request; it may have been answered before."""
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
    """Raises `RefusedError` where there are several hosts: RFC 9112, 3.2.

    A proxy in front may have looked at another one than is looked at here.
    """
    count = sum(name == _HOST for name, _ in head.headers)
    if count > 1:
        text = f"the request has {count} Host headers; expected one"
        raise RefusedError(reply_of_status(HTTPStatus.BAD_REQUEST, text))


def length_of(http_request: HttpRequest) -> int | None:
    """Returns how long a body is, as the head says; None: it does not."""
    value = http_request.head.named.get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
