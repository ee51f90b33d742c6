"""One connection to a server: bytes to requests, answers to bytes. Loads httptools.

A client sends two requests at once, without waiting for the first answer: two `Exchange`s begin, in
order; whichever is answered first, their answers leave in the order of the requests.
"""

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import cast

import httptools

from modelflow.http.body import Body, RefusedError
from modelflow.http.connections import Connections, Member
from modelflow.http.exchange import Exchange, Handler
from modelflow.http.head import head_of
from modelflow.http.known_heads import KnownHead
from modelflow.http.outflow import Outflow, StreamedReply
from modelflow.http.reply import Reply, reply_of_status

__all__ = ["Connection"]

_log = logging.getLogger(__name__)

# Requests of one connection that are under way; then it is not read until one is answered.
_MOST_PIPELINED = 16
# What is still read of somebody who was refused, so that the answer arrives: bytes, seconds.
_LINGER_BYTES = 64 << 10
_LINGER_SECONDS = 2.0
# How long somebody who has just connected may take to ask, so as to be told that all is ending.
_GRACE_SECONDS = 0.2


class Connection(asyncio.Protocol):
    """A connection over HTTP/1.1. For the server's thread alone."""

    host: str
    """The client's address."""

    def __init__(
        self, connections: Connections, handler: Handler, before: Member | None = None
    ) -> None:
        """Takes those it belongs to, and who answers.

        Args:
            connections: All of the server's.
            handler: Who answers.
            before: What has stood for it among them until now.
        """
        self._before = before
        self.host = self._client = ""
        self._all = connections
        self._limits = connections.limits
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        # What is being read.
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._reading: Exchange | None = None
        self._body: Body | None = None
        self._handled: Exchange | None = None  # while it is given to whoever answers
        self._whole: Exchange | None = None  # the last that was read, while data are
        self._head = b""  # of the request before, where it was the whole of what came
        self._is_within = False  # a part of a message has come
        self._is_old = False  # the last request was one over HTTP/1.0
        self._has_asked = False
        self._count = 0  # of requests
        self._unheard = 0  # bytes since the last head, or the last part of a body
        self._announced: int | None = None
        # What is not answered, in order; with the answers that are not their turn's yet.
        self._pending: deque[Exchange] = deque()
        self._replies: dict[Exchange, tuple[Reply | StreamedReply, bool]] = {}
        self._outflow: Outflow | None = None  # the answer that is being sent part by part
        self._last: Exchange | None = None  # nothing is read behind it
        self._lingering: int | None = None  # bytes that are still read and dropped
        self._is_paused = False
        self._is_writable = True
        self._awaited = "head"  # or "body", "rest": what `_due` is for
        self._due: float | None = None  # until when it must come
        self._timer: asyncio.TimerHandle | None = None

    # -- the transport's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection, or refuses it."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by name
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self._client = peer[0], f"{peer[0]}:{peer[1]}"
        if self._before is not None:
            self._all.forget(self._before)
        if self._all.admit(self):
            self._wait(self._limits.header_time_out)
        else:
            text = "there are too many connections"
            self._refuse(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is lost
        """Tells those who work for it that nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._all.forget(self)
        self._drop_body()
        pending, self._pending = self._pending, deque()
        replies, self._replies = self._replies, {}
        if self._outflow is not None:
            pending.popleft().gone(self._outflow.sent)
        for exchange in pending:
            exchange.gone()
        for reply, _ in replies.values():
            if isinstance(reply, StreamedReply):  # its turn has not come; it is told all the same
                outflow = self._new_outflow(is_chunked=False)
                reply.begin(outflow)
                outflow.gone()
        if self._outflow is not None:
            self._outflow.gone()

    def data_received(self, data: bytes) -> None:
        """Reads what came."""
        if self._lingering is not None:
            self._lingering -= len(data)
            if self._lingering <= 0:
                self.close()
            return
        if not self._is_within and self._last is None:  # nothing of a request has come yet
            found = self._all.heads.find(data)
            if found is not None:
                self._ask_as_before(*found)
                self._set_due()
                return
        count = self._count if not self._is_within else -1
        self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self._go_on_without_upgrade(data[error.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse_error(error)
        else:
            if self._unheard > self._limits.header_bytes:
                self._refuse(_too_long(LongHeadError(self._limits.header_bytes, "bytes")))
            elif self._count == count + 1 and not self._is_within:
                self._learn(data)
        self._whole = None
        self._set_due()

    def pause_writing(self) -> None:
        """Reads nothing more of a client that does not take its answers."""
        self._is_writable = False
        self._balance()
        self._wait(self._limits.keepalive)

    def resume_writing(self) -> None:
        """Goes on."""
        self._is_writable = True
        self._balance()
        self._set_due()
        if self._outflow is not None:
            self._outflow.on_room()

    # -- the parser's calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begins to read a request."""
        self._is_within = True
        self._target = b""
        self._headers = []
        self._announced = None

    def on_url(self, part: bytes) -> None:
        """Takes what is asked for."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, also one behind the body."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begins a request."""
        size = len(self._target) + sum(len(name) + len(value) for name, value in self._headers)
        self._unheard = 0
        if size > self._limits.header_bytes:
            raise LongHeadError(self._limits.header_bytes, "bytes")
        if len(self._headers) > self._limits.headers:
            raise LongHeadError(self._limits.headers, "headers")
        exchange = Exchange(
            self._parser.get_method().decode("latin-1"),
            self._target.decode("latin-1"),
            self._headers,
            self._client,
            self._answered,
            self._all.mailbox,
        )
        self._is_old = self._parser.get_http_version() == "1.0"
        self._reading = exchange
        self._begin(exchange, is_last=not self._parser.should_keep_alive())
        try:
            limits = self._handler.begin(exchange)
            self._body = Body(limits, _length(exchange))
        except RefusedError as error:
            self._refuse_body(exchange, error.reply)
        else:
            if (exchange.header(b"expect") or b"").lower() == b"100-continue":
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin(self, exchange: Exchange, *, is_last: bool) -> None:
        """Takes up a request; ``is_last``: the client says so."""
        self._has_asked = True
        self._pending.append(exchange)
        self._all.work(self)
        self._count += 1
        if is_last or self._count == self._limits.requests:
            self._last = exchange

    def _ask_as_before(self, head: KnownHead, body: bytes) -> None:
        """Takes a whole request whose head is known."""
        exchange = Exchange(
            head.method, head.target, head.headers, self._client, self._answered, self._all.mailbox
        )
        self._is_old = False
        self._handled = exchange
        try:
            self._begin(exchange, is_last=False)
            Body(self._handler.begin(exchange), head.length).add(body)
            exchange.body = body
            self._handler.handle(exchange)
        except RefusedError as error:
            exchange.answer(error.reply)
        except Exception as error:  # noqa: BLE001 - as the parser does with what it calls
            self._refuse_inside(error)
        self._handled = None

    def _learn(self, message: bytes) -> None:
        """Keeps the head of a message that was one whole request, if it is the second with it.

        Heads that differ each time, as with an id of the request, are not kept.
        """
        exchange = self._whole
        if exchange is None:
            return
        length = len(exchange.body)
        head, self._head = self._head, message[: len(message) - length]
        is_plain = not (
            self._is_old
            or exchange.header(b"transfer-encoding")
            or exchange.header(b"expect")
            or exchange.header(b"upgrade")
        )
        if head == self._head and is_plain and (_length(exchange) or 0) == length:
            method, target = exchange.method, exchange.target
            self._all.heads.learn(message, KnownHead(method, target, exchange.headers, length))

    def on_body(self, part: bytes) -> None:
        """Takes a part of the body."""
        self._unheard = 0
        if self._body is None:
            return  # it was refused, and is dropped
        try:
            self._body.add(part)
        except RefusedError as error:
            assert self._reading is not None  # its body is being read
            self._refuse_body(self._reading, error.reply)

    def on_message_complete(self) -> None:
        """Ends the request; it may have been answered before."""
        self._unheard = 0
        exchange, body = self._reading, self._body
        self._reading = self._body = None
        self._is_within = False
        self._balance()
        if exchange is not None and body is not None:
            exchange.body = body.whole()
            self._whole = self._handled = exchange
            self._handler.handle(exchange)
            self._handled = None

    # -- answering --------------------------------------------------------------------------------

    def _answered(self, exchange: Exchange, reply: Reply | StreamedReply) -> None:
        """Sends an answer when its turn has come, with those behind it that wait for that."""
        is_kept = self._is_old
        if is_kept and isinstance(reply, StreamedReply):
            self._last = exchange  # that version has no other way to say where the body ends
        self._replies[exchange] = reply, is_kept
        if self._outflow is None:
            self._flush()

    def _flush(self) -> None:
        """Sends the answers whose turn has come."""
        parts: list[bytes] = []
        exchange = None
        while self._pending and (found := self._replies.pop(self._pending[0], None)):
            reply, is_kept = found
            is_last = self._pending[0] is self._last
            parts.append(head_of(reply, is_last=is_last, is_kept=is_kept))
            if isinstance(reply, StreamedReply):
                self._write(b"".join(parts))
                self._outflow = self._new_outflow(is_chunked=not is_kept)
                reply.begin(self._outflow)
                return
            exchange = self._pending.popleft()
            if exchange.method != "HEAD":
                parts.append(reply.body)
            if is_last:
                break
        if exchange is not None:
            self._write(b"".join(parts))
            self._sent(exchange)

    def _sent(self, exchange: Exchange) -> None:
        """Goes on behind an answer that is sent whole, or ends."""
        self._balance()
        if exchange is self._last:
            self._end()
        elif not self._pending:
            self._all.rest(self)
            self._set_due()

    def _new_outflow(self, *, is_chunked: bool) -> Outflow:
        room = lambda: self._is_writable  # noqa: E731 - a method would be one line of three
        return Outflow(self._write, room, self._outflow_ended, is_chunked=is_chunked)

    def _outflow_ended(self) -> None:
        assert self._outflow is not None  # it is its end
        exchange = self._pending.popleft()
        exchange.over(self._outflow.sent)
        self._outflow = None
        self._sent(exchange)
        if exchange is not self._last:
            self._flush()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _balance(self) -> None:
        """Reads on, or not: while answers are owed, or are not taken."""
        is_full = len(self._pending) > _MOST_PIPELINED or not self._is_writable
        if is_full != self._is_paused and self._transport is not None:
            self._is_paused = is_full
            if is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- refusing ---------------------------------------------------------------------------------

    def _refuse_body(self, exchange: Exchange, reply: Reply) -> None:
        """Answers before the body is there, and drops it; a long one ends the connection."""
        self._drop_body()
        announced = _length(exchange)
        if announced is None or announced > _LINGER_BYTES:
            self._last = exchange
        exchange.answer(reply)

    def _refuse_error(self, error: Exception) -> None:
        if isinstance(error.__context__, LongHeadError):
            self._refuse(_too_long(error.__context__))
        elif isinstance(
            error, httptools.HttpParserCallbackError
        ):  # whoever handles requests raised
            self._refuse_inside(error.__context__ or error)
        else:
            text = f"this is no request over HTTP/1.1: {error}"
            self._refuse(reply_of_status(HTTPStatus.BAD_REQUEST, text))

    def _refuse_inside(self, error: BaseException) -> None:
        """Answers where whoever handles requests has raised."""
        _log.error("a request failed in the server", exc_info=error)
        text = "the request failed inside the server, whose log tells why"
        self._refuse(reply_of_status(HTTPStatus.INTERNAL_SERVER_ERROR, text))

    def _refuse(self, reply: Reply) -> None:
        """Answers what is no request, or never will be one; nothing is read behind it."""
        if self._lingering is not None or self._transport is None:
            return
        exchange = self._reading or self._handled
        self._drop_body()
        if exchange is None:
            exchange = Exchange("", "", (), self._client, self._answered, self._all.mailbox)
            self._pending.append(exchange)
        self._last = exchange
        exchange.answer(reply)

    def _drop_body(self) -> None:
        if self._body is not None:
            self._body.drop()
            self._body = None

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Answers an offer of another protocol as the request that it is."""
        self._parser = httptools.HttpRequestParser(self)
        if rest:
            self.data_received(rest)

    # -- time -------------------------------------------------------------------------------------

    def _set_due(self) -> None:
        """Says until when what is missing must be there; each part of it does not put that off."""
        if self._lingering is not None or not self._is_writable:
            return
        before = self._awaited if self._due is not None else None
        if self._body is not None:
            self._awaited, seconds = "body", self._body.limits.time_out
        elif self._unheard:
            self._awaited, seconds = "head", self._limits.header_time_out
        elif self._pending:
            self._due = None
            return
        else:
            self._awaited, seconds, before = "rest", self._limits.keepalive, None
        if before != self._awaited:
            self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        """Ends the connection after so many seconds, unless something else is said before."""
        self._due = due = self._loop.time() + seconds
        if self._timer is None or due < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._expire)
        elif self._lingering is not None or not self._is_writable:
            self.close()
        elif self._body is not None:
            seconds = f"{self._body.limits.time_out:g} s"
            text = f"the body was not there within {seconds}"
            self._refuse(reply_of_status(HTTPStatus.REQUEST_TIMEOUT, text))
        elif self._unheard:
            text = f"no request was there within {self._limits.header_time_out:g} s"
            self._refuse(reply_of_status(HTTPStatus.REQUEST_TIMEOUT, text))
        else:  # it says nothing: nobody waits for an answer
            self.close()

    # -- the end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """Ends it as soon as its requests are answered."""
        if self._pending:
            self._last = self._last or self._pending[-1]
        else:  # its request may be on the way, if it is new; or lie in its socket
            self._loop.call_later(0 if self._has_asked else _GRACE_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._pending:
            self.end()
        else:
            self.close()

    def close(self) -> None:
        """Ends it; what was written is still sent."""
        if self._transport is not None:
            self._transport.close()

    def _end(self) -> None:
        """Ends it behind the last answer; who still sends is heard out, so that it arrives."""
        transport = self._transport
        if transport is None or self._lingering is not None:
            return
        if self._reading is None or not transport.can_write_eof():
            transport.close()
            return
        transport.write_eof()
        self._lingering = _LINGER_BYTES
        self._wait(_LINGER_SECONDS)


class LongHeadError(Exception):
    """A head has too many bytes, or headers (passes through the parser)."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"the head of the request has more than {most} {what}")


def _too_long(error: LongHeadError) -> Reply:
    return reply_of_status(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error))


def _length(exchange: Exchange) -> int | None:
    value = exchange.header(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
