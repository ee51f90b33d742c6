"""A connection to a server with at most one request in flight; imports httptools."""

import asyncio
from typing import TYPE_CHECKING, cast

import httptools

from modelflow.insight.load.target import Attempt, Outcome

if TYPE_CHECKING:
    from modelflow.insight.load.http_target import HttpTarget


# The most bytes of a reply's headers, and of a whole reply.
_MOST_HEAD = 1 << 16
_MOST_BODY = 1 << 30


class HttpConnection(asyncio.Protocol):
    """A connection to a server; used only on the event loop's thread.

    Attributes:
        attempt: The request in flight, or None.
    """

    def __init__(self, pool: "HttpTarget") -> None:
        """Makes a protocol that the event loop connects."""
        self._pool = pool
        self.attempt: Attempt | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._is_used = False  # the connection has completed a request
        self._has_begun = False  # bytes of the reply have arrived
        self._has_head = False
        self._has_length = False
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def ask(self, attempt: Attempt, request: bytes) -> None:
        """Sends a request; no other request may be in flight."""
        assert self._transport is not None  # it is connected
        self.attempt = attempt
        attempt.handle = self
        self._has_begun = self._has_head = self._has_length = False
        self._size = 0
        self._transport.write(request)

    def close(self) -> None:
        """Closes the connection; does not report the end of a request in flight."""
        self.attempt = None
        if self._transport is not None:
            self._transport.abort()

    # -- received data ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._has_begun = True
        self._size += len(data)
        if self.attempt is None:  # data without a request
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a bug in a callback of this class
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("no HTTP/1.1")
            return
        if self._size > (_MOST_BODY if self._has_head else _MOST_HEAD):
            self._fail("too long an answer")

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002
        """Notes whether the reply declares its length (called by the parser)."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        """Notes that the headers are complete (called by the parser)."""
        self._has_head = True

    def on_message_complete(self) -> None:
        """Ends the request with its reply (called by the parser)."""
        status = self._parser.get_status_code()
        if status < 200:  # an interim reply, such as 100 Continue
            self._has_head = self._has_length = False
            return
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return
        is_kept = self._parser.should_keep_alive()
        attempt.on_end(_outcome_of(status))
        if is_kept:
            self._is_used = True
            self._pool.add_free(self)
        else:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            # A reply without a declared length ends with the connection.
            if self._has_head and not self._has_length and error is None:
                attempt.on_end(_outcome_of(self._parser.get_status_code()))
            elif self._is_used and not self._has_begun:
                self._pool.again(attempt)
            else:
                attempt.on_end("no answer" if error is None else type(error).__name__)
        self._pool.on_close(self)

    def _fail(self, outcome: str) -> None:
        attempt = self.attempt
        self.close()
        if attempt is not None:
            attempt.on_end(outcome)


def _outcome_of(status: int) -> str:
    return Outcome.OK if 200 <= status < 300 else f"HTTP {status}"
