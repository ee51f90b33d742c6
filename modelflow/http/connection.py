"""One HTTP/1.1 connection with its requests, replies and timeouts. This module imports httptools.

A client may send two requests without waiting for the first reply. Then two `HttpRequest`s start in
order. The replies leave in the order of the requests, even if the second is answered first.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import cast

import httptools

from modelflow.http.answers import Answers
from modelflow.http.connections import Connections, IdleTimer, Member
from modelflow.http.options import join_address
from modelflow.http.reply import Reply, reply_of_status
from modelflow.http.request import Handler, HttpRequest, RequestHead
from modelflow.http.request_reader import LongHeadError, RequestReader, length_of

_log = logging.getLogger(__name__)

# The most unanswered requests of a connection. Beyond this number the connection is not read.
_MOST_PIPELINED = 16
# The bytes and seconds for which data are still read after a refusal. Closing at once could reset
# the connection before the client has read the reply.
_LINGER_BYTES = 64 << 10
_LINGER_SECONDS = 2.0
# A new or idle connection stays open this long when the server stops. A request that is already on
# its way can then be answered, with the notice that the connection ends.
_GRACE_SECONDS = 0.2


class Connection(asyncio.Protocol):
    """An HTTP/1.1 connection. Call the methods on the server's thread only."""

    host: str
    """The client's address."""

    def __init__(
        self, connections: Connections, handler: Handler, before: Member | None = None
    ) -> None:
        """Stores the connections of the server and the handler.

        Args:
            connections: All connections of the server.
            handler: The handler of requests.
            before: The TLS handshake that this connection replaces, or None.
        """
        self._before = before
        self.host = self._client = ""
        self._all = connections
        self._limits = connections.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader(self, handler, self._limits, connections.heads)
        self._answers = Answers(self._write, self._deliver)
        self._expiry = IdleTimer(self._loop, self._expire)
        self._count = 0  # the number of requests
        self._is_ending = False  # the next request is the last
        self._idle_since = self._loop.time()  # the time of the last reply or of the connect
        self._lingering: int | None = None  # bytes still to read and discard
        self._is_paused = self._is_spare = False
        self._unsent = 0  # bytes that the client had not read at the last check
        self._uninvited: HttpRequest | None = None  # waits for "100 Continue"
        self._awaited = "head"  # "head", "body" or "rest": the subject of `_expiry`

    # -- the transport's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepts or refuses the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self._client = peer[0], join_address(*peer[:2])
        elif isinstance(peer, str):  # a Unix socket
            self._client = "unix"
        if self._before is not None:
            self._all.forget(self._before)
        self._is_spare = not self._all.admit(self)
        if not self._is_spare or self._all.admit_spare(self):
            self._expiry.wait(self._limits.header_time_out)
        else:
            text = "there are too many connections"
            self._refuse(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - not used
        """Cancels the requests of this connection."""
        self._expiry.cancel()
        self._transport = None
        self._all.forget(self)
        self._reader.drop_body()
        self._answers.drop()

    def data_received(self, data: bytes) -> None:
        """Reads received data."""
        if self._lingering is not None:
            self._hear_out(data)
            return
        try:
            while data := self._reader.feed(data):
                pass
        except (LongHeadError, httptools.HttpParserError) as error:
            self._refuse_error(error)
        owed, reader = self._answers.owed, self._reader
        if len(owed) > _MOST_PIPELINED:
            self._balance()
        if owed and reader.body is None and not reader.unheard:
            self._expiry.due = None  # like `_set_due`, but fast for whole requests
        else:
            self._set_due()

    def pause_writing(self) -> None:
        """Stops reading from a client that does not read its replies."""
        self._answers.is_writable = False
        self._balance()
        self._wait_until_taken()

    def resume_writing(self) -> None:
        """Resumes reading and sending."""
        self._answers.is_writable = True
        self._balance()
        self._set_due()
        self._answers.go_on()

    # -- the reader's calls -----------------------------------------------------------------------

    def receive(self, head: RequestHead, *, is_kept: bool) -> HttpRequest | None:
        """Returns a request for a head, or None after the last request."""
        answers = self._answers
        if answers.last is not None:
            return None
        if self._is_spare:
            head = head.with_headers(())  # without limits: the handler must check the path
        http_request = HttpRequest(head, self._client, answers.give, self._all.loop_queue)
        http_request.is_spare = self._is_spare
        answers.owed.append(http_request)
        answers.is_old = self._reader.is_old
        self._all.resting.pop(self, None)
        self._count += 1
        if not is_kept or self._is_ending or self._is_spare or self._count == self._limits.requests:
            answers.last = http_request
        return http_request

    def refuse_body(self, http_request: HttpRequest, reply: Reply) -> None:
        """Answers before the body has arrived, and drops the body.

        After a long body the connection ends.
        """
        self._reader.drop_body()
        announced = length_of(http_request)
        if announced is None or announced > _LINGER_BYTES:
            self._answers.last = http_request
        http_request.answer(reply)

    def invite_body(self, http_request: HttpRequest) -> None:
        """Sends "100 Continue" after the replies to the earlier requests."""
        if self._answers.owed[0] is http_request:
            self._uninvited = None
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self._uninvited = http_request

    # -- answering --------------------------------------------------------------------------------

    def _deliver(self, http_request: HttpRequest, data: bytes) -> None:
        """Sends the rest of a reply, and then continues with the next request or ends."""
        transport, answers = self._transport, self._answers
        if data and transport is not None and not transport.is_closing():
            transport.write(data)
        if self._is_paused:
            self._balance()
        if http_request is answers.last:
            self._end()
        elif not answers.owed:  # the connection is idle now
            reader, expiry, limits = self._reader, self._expiry, self._limits
            if transport is not None:
                self._all.resting[self] = None
            self._idle_since = now = self._loop.time()
            if reader.body is not None or reader.unheard:
                self._set_due()
                return
            self._awaited = "rest"
            due = now + limits.keepalive
            if due >= expiry.looks_at:  # like `wait_until`, without the call
                expiry.due = due
            else:
                expiry.wait_until(due)
        elif self._uninvited is answers.owed[0]:
            self.invite_body(self._uninvited)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _balance(self) -> None:
        """Pauses reading while too many replies are missing or unread, or else resumes reading."""
        is_full = len(self._answers.owed) > _MOST_PIPELINED or not self._answers.is_writable
        if is_full != self._is_paused and self._transport is not None:
            self._is_paused = is_full
            if is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- refusing ---------------------------------------------------------------------------------

    def _refuse_error(self, error: Exception) -> None:
        if isinstance(error, LongHeadError):
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            self._refuse(reply_of_status(status, str(error)))
        elif isinstance(error, httptools.HttpParserCallbackError):  # an error in the handler
            _log.error("a request failed in the server", exc_info=error.__context__ or error)
            text = "the request failed inside the server, whose log tells why"
            self._refuse(reply_of_status(HTTPStatus.INTERNAL_SERVER_ERROR, text))
        else:
            text = f"this is no HTTP/1.1 request: {error}"
            self._refuse(reply_of_status(HTTPStatus.BAD_REQUEST, text))

    def _refuse(self, reply: Reply) -> None:
        """Answers an invalid or incomplete request with an error. No further data are read."""
        if self._lingering is not None or self._transport is None:
            return
        if self._answers.last not in (None, self._reader.http_request):
            return  # the reply to `last` ends the connection
        self._reader.drop_body()
        http_request = self._reader.http_request
        if http_request is None:
            head = RequestHead("", "")
            http_request = HttpRequest(head, self._client, self._answers.give, self._all.loop_queue)
            self._answers.owed.append(http_request)
        self._answers.last = http_request
        http_request.answer(reply)

    # -- time -------------------------------------------------------------------------------------

    def _set_due(self) -> None:
        """Sets the timeout for the missing head or body, or for the next request.

        Parts of a head or body do not extend the timeout. Otherwise a client could send one byte at
        a time and keep the connection for ever.
        """
        if self._lingering is not None or not self._answers.is_writable:
            return
        before = self._awaited if self._expiry.due is not None else None
        if self._reader.body is not None:
            self._awaited, seconds = "body", self._reader.body.limits.time_out
        elif self._reader.unheard:
            self._awaited, seconds = "head", self._limits.header_time_out
        elif self._answers.owed:
            self._expiry.due = None
            return
        else:
            self._awaited, seconds, before = "rest", self._limits.keepalive, None
        if before != self._awaited:
            self._expiry.wait(seconds)

    def _expire(self) -> None:
        """Ends the connection after a timeout of sending or reading by the client."""
        assert self._transport is not None  # `connection_lost` cancels the timer
        if self._transport.is_closing() or not self._answers.is_writable:
            if self._transport.get_write_buffer_size() != self._unsent:
                self._wait_until_taken()  # the client is slow but still reads
            else:
                self._transport.abort()  # `close` would wait until all data are read
        elif self._lingering is not None:
            self.close()
        elif self._reader.body is not None:
            seconds = f"{self._reader.body.limits.time_out:g} s"
            text = f"the body did not arrive within {seconds}"
            self._refuse(reply_of_status(HTTPStatus.REQUEST_TIMEOUT, text))
        elif self._reader.unheard:
            text = f"no request arrived within {self._limits.header_time_out:g} s"
            self._refuse(reply_of_status(HTTPStatus.REQUEST_TIMEOUT, text))
        else:  # idle: the client waits for no reply
            self.close()

    # -- the end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """Ends the connection as soon as its requests are answered."""
        if self._answers.owed:
            self._answers.end()
        else:
            self._is_ending = True
            rested = self._loop.time() - self._idle_since
            self._loop.call_later(max(0.0, _GRACE_SECONDS - rested), self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._answers.owed:
            self.close()

    def close(self) -> None:
        """Closes the connection. Queued data are still sent if the client reads them in time."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._wait_until_taken()

    def _wait_until_taken(self) -> None:
        assert self._transport is not None  # callers have checked
        self._unsent = self._transport.get_write_buffer_size()
        self._expiry.wait(self._limits.keepalive)

    def _end(self) -> None:
        """Ends the connection after the last reply.

        If the client still sends a request, its data are read and discarded for a while. Closing at
        once could reset the connection before the client has read the reply.
        """
        transport = self._transport
        if transport is None or self._lingering is not None:
            return
        if not self._reader.is_reading or not transport.can_write_eof():
            self.close()
            return
        transport.write_eof()
        self._lingering = _LINGER_BYTES
        self._expiry.wait(_LINGER_SECONDS)

    def _hear_out(self, data: bytes) -> None:
        """Discards data that arrive after the last reply."""
        assert self._lingering is not None  # `data_received` has checked
        self._lingering -= len(data)
        if self._lingering <= 0:
            self.close()
