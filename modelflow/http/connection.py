"""One connection to a server, and how many there may be. Loads uvicorn."""

import asyncio
from collections import Counter
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modelflow.http.limits import ConnectionLimits
from modelflow.http.reply import reply_of_status

__all__ = ["Connection", "Connections"]


class Connections:
    """The connections of a server. For its thread alone.

    Where there are too many, the one that has waited longest for a request makes room, so that
    those who connect and say nothing shut nobody out.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._most, self._most_of_one = limits.most, limits.most_of_one
        self._open: dict[Connection, None] = {}
        self._resting: dict[Connection, None] = {}  # in the order in which they began to
        self._by_host: Counter[str] = Counter()

    def admit(self, new: "Connection") -> bool:
        """Takes up a connection; False where there is no room, and none can be made."""
        host = new.host
        is_over = self._by_host[host] >= self._most_of_one
        if is_over and not self._close_one([one for one in self._resting if one.host == host]):
            return False
        if len(self._open) >= self._most and not self._close_one(list(self._resting)):
            return False
        self._open[new] = self._resting[new] = None
        self._by_host[host] += 1
        return True

    def work(self, one: "Connection") -> None:
        """Notes that a connection has a request."""
        self._resting.pop(one, None)

    def rest(self, one: "Connection") -> None:
        """Notes that a connection waits for its next request."""
        if one in self._open:
            self._resting[one] = None

    def forget(self, one: "Connection") -> None:
        """Notes that a connection has ended. May be called again."""
        self._resting.pop(one, None)
        if one in self._open:
            del self._open[one]
            self._by_host[one.host] -= 1
            if not self._by_host[one.host]:
                del self._by_host[one.host]

    def _close_one(self, resting: "list[Connection]") -> bool:
        for one in resting:
            self.forget(one)
            one.transport.close()
            return True
        return False


class _TooLongError(Exception):
    """A head has too many bytes."""


class Connection(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn is not always there
    """uvicorn's protocol, with bounds on what comes before and between the bodies."""

    def __init__(self, connections: Connections, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._all = connections
        self._limits = connections.limits
        self._unheard = 0  # bytes since the last head, or the last part of a body
        self._timer: asyncio.TimerHandle | None = None

    @property
    def host(self) -> str:
        """The client's address."""
        return self.client[0] if self.client else ""

    # -- the transport's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Takes the connection, or refuses it."""
        super().connection_made(transport)
        if self._all.admit(self):
            self._wait_for_head()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._stop_waiting()
        self._all.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads what came."""
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()
        self._unheard += len(data)
        super().data_received(data)
        if self._unheard > self._limits.header_bytes and not self.transport.is_closing():
            self._refuse_head()

    # -- the parser's calls -----------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Begins a request."""
        self._unheard = 0
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.header_bytes:
            raise _TooLongError  # answered by `send_400_response`
        self._stop_waiting()
        self._all.work(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body."""
        self._unheard = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends the request; it may have been answered before."""
        self._unheard = 0
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no request that is allowed."""
        size = sum(len(name) + len(value) for name, value in self.headers or ())
        if size + len(getattr(self, "url", b"")) > self._limits.header_bytes:
            self._refuse_head()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def on_response_complete(self) -> None:
        """Goes on to the next request."""
        is_next_here = bool(self.pipeline)
        super().on_response_complete()
        if not is_next_here:
            self._all.rest(self)

    # -- refusing ---------------------------------------------------------------------------------

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self._limits.header_time_out, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._unheard:
            seconds = f"{self._limits.header_time_out:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"no request was there within {seconds}")
        else:  # it has said nothing: nobody waits for an answer
            self.transport.close()

    def _refuse_head(self) -> None:
        text = f"the head of the request has more than {self._limits.header_bytes} bytes"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        reply = reply_of_status(status, message)
        lines = [f"HTTP/1.1 {int(status)} {status.phrase}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        lines += [f"content-length: {len(reply.body)}", "", ""]
        self.transport.write("\r\n".join(lines).encode() + reply.body)
        self.transport.close()
