"""One HTTP/2 connection with its calls and timeouts. This module imports zttp."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import zttp
from zttp import H2ErrorCode

from modelflow.http.connections import IdleTimer, Member
from modelflow.http.options import join_address
from modelflow.serve.grpc.http2.connection_use import ConnectionAge, ConnectionWorn, opening
from modelflow.serve.grpc.http2.live_calls import LiveCalls
from modelflow.serve.grpc.http2.method_table import MethodTable

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

# After GOAWAY, calls that the client sent before receiving GOAWAY are accepted for this time. Later
# calls are refused, and gRPC clients then send them on another connection.
_GRACE_SECONDS = 0.2
# After an error, the connection stays open this long. Closing at once could reset the connection
# before the client has read the error.
_LINGER_SECONDS = 2.0
_ANY_STREAM = (1 << 31) - 1


class GrpcConnection(asyncio.Protocol):
    """An HTTP/2 connection of the server. Call the methods on the loop's thread only."""

    host: str
    """The client's address."""
    peer: str
    """The client's address in gRPC's form: ``ipv4:127.0.0.1:50000``."""

    def __init__(self, table: MethodTable, before: Member | None = None) -> None:
        """Stores the shared method table, and the TLS handshake that this connection replaces."""
        self.host = self.peer = ""
        self._table = table
        self._before = before
        self._all = table.connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http2 = zttp.Connection(zttp.SERVER, zttp.HTTP2)
        self._wear = ConnectionAge()
        self._calls = LiveCalls(table, self._http2, self)
        self._expiry = IdleTimer(self._loop, self._expire)
        self._last = 0  # the last accepted stream
        self._is_met = False  # the client has sent its HTTP/2 settings
        self._is_leaving = False  # GOAWAY was sent
        self._is_shut = False  # further streams are refused
        self._is_deaf = False  # received data are ignored
        self._is_dirty = False  # `_flush` is scheduled
        self._has_room = False  # the client has raised its flow-control window in this loop turn
        self._takes: dict[type, Callable[[Any], None]] = {
            zttp.Request: self._calls.request,
            zttp.Data: self._calls.data,
            zttp.EndOfMessage: self._calls.end,
            zttp.RstStream: self._reset,
            zttp.WindowUpdate: self._window,
            zttp.Settings: self._settings,
            zttp.Ping: self._signal,
            zttp.GoAway: _nothing,
        }

    # -- the transport's calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepts or refuses the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host = peer[0]
            self.peer = f"ipv{6 if ':' in self.host else 4}:{join_address(*peer[:2])}"
        elif isinstance(peer, str):  # a Unix socket
            self.peer = "unix:"
        if self._before is not None:
            self._all.forget(self._before)
        options = self._table.options
        self._http2.initiate_connection()
        self._http2.data_to_send()  # drops zttp's settings: `opening` has ours
        self._transport.write(opening(options.max_streams, options.connections.header_bytes))
        if self._all.admit(self):
            self._expiry.wait(options.connections.header_time_out)
        else:
            self._break(H2ErrorCode.ENHANCE_YOUR_CALM)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - not used
        """Cancels the calls of this connection."""
        self._expiry.cancel()
        self._transport = None
        self._is_deaf = True
        self._all.forget(self)
        self._give_up()

    def data_received(self, data: bytes) -> None:
        """Reads received data."""
        if self._is_deaf:
            return
        self._is_dirty = True  # `send_soon` schedules nothing: one `_flush` below sends everything
        if not self._read(data):
            return
        self._calls.look()
        if self._has_room:
            self._has_room = False
            self._calls.go_on()
        self._flush()

    def _read(self, data: bytes) -> bool:
        """Handles received data. Returns False if the connection has ended."""
        try:
            self._http2.receive_data(data)
            while (event := self._http2.next_event()) is not zttp.NEED_DATA:
                self._takes[type(event)](event)
                if self._is_deaf:
                    break
        except zttp.RemoteProtocolError as error:  # zttp has queued a GOAWAY for the client
            _log.debug("%s: %s", self.peer, error)
            self._linger()
        return not self._is_deaf

    def pause_writing(self) -> None:
        """Stops reading from a client that does not read its replies."""
        self._calls.is_writable = False
        if self._transport is not None:
            self._transport.pause_reading()
        self._expiry.wait(self._table.options.connections.keepalive)

    def resume_writing(self) -> None:
        """Resumes reading and sending."""
        self._calls.is_writable = True
        if self._transport is not None:
            self._transport.resume_reading()
        self._set_due()
        self._calls.pump()

    # -- receiving --------------------------------------------------------------------------------

    def takes(self, stream: int) -> bool:
        """Counts a new stream, and returns whether the connection accepts another call."""
        worn = self._wear.stream()
        if worn is not ConnectionWorn.NOT:
            self._age(worn)
        if self._is_shut or len(self._calls) >= self._table.options.max_streams:
            return False
        self._last = stream
        return True

    def wake(self) -> None:
        """Records that the connection is no longer idle."""
        self._all.resting.pop(self, None)
        self._expiry.due = None

    def _reset(self, event: zttp.RstStream) -> None:
        # STREAM_CLOSED only answers late frames
        if event.error_code != H2ErrorCode.STREAM_CLOSED:
            self._age(self._wear.reset())
        self._calls.on_cancel(event.stream_id)

    def _window(self, _: zttp.WindowUpdate) -> None:
        self._has_room = True

    def _settings(self, settings: zttp.Settings) -> None:
        if not self._is_met:
            self._is_met = True
            self._set_due()
        self._has_room = True  # the settings may enlarge the windows
        self._signal(settings)

    def _signal(self, _: zttp.Settings | zttp.Ping) -> None:
        if self._wear.is_flooded(self._loop.time()):
            self._break(H2ErrorCode.ENHANCE_YOUR_CALM)

    # -- sending ----------------------------------------------------------------------------------

    def send_soon(self) -> None:
        """Schedules one write per loop turn for the data of all streams."""
        if not self._is_dirty:
            self._is_dirty = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_dirty = False
        data = self._calls.credit.join(self._http2.data_to_send())
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def rest(self) -> None:
        """Marks the connection as idle after its last call."""
        self._all.rest(self)
        self._set_due()
        if self._is_shut:
            self.close()

    # -- the end ----------------------------------------------------------------------------------

    def _set_due(self) -> None:
        """Sets the idle timeout. While calls are running, the timeout is off."""
        if self._is_deaf or not self._calls.is_writable:
            return
        if self._calls:
            self._expiry.due = None
        else:
            self._expiry.wait(self._table.options.connections.keepalive)

    def _expire(self) -> None:
        if self._transport is not None and not self._calls.is_writable:
            self._transport.abort()
        elif self._is_deaf:
            self.close()
        elif self._is_met:
            self.end()
        else:
            self._break(H2ErrorCode.SETTINGS_TIMEOUT)

    def _age(self, worn: ConnectionWorn) -> None:
        if worn is not ConnectionWorn.NOT:
            self.end()
        if worn is ConnectionWorn.OUT:
            self._shut()

    def end(self) -> None:
        """Sends GOAWAY, and closes the connection after its calls are answered."""
        if not self._is_leaving and not self._is_deaf:
            self._is_leaving = True
            self._http2.close(H2ErrorCode.NO_ERROR, _ANY_STREAM)
            self.send_soon()
            self._loop.call_later(_GRACE_SECONDS, self._shut)

    def _shut(self) -> None:
        """Refuses further streams."""
        if self._is_shut or self._is_deaf:
            return
        self._is_shut = True
        self._http2.close(H2ErrorCode.NO_ERROR, self._last)
        self.send_soon()
        if not self._calls:
            self.close()

    def _break(self, code: H2ErrorCode) -> None:
        """Closes the connection with an error code."""
        self._http2.close(code, self._last)
        self._linger()

    def _linger(self) -> None:
        """Closes the connection after sending the queued data.

        The socket stays open for `_LINGER_SECONDS`. Closing at once could reset the connection
        before the client has read the data.
        """
        self._is_deaf = True
        self._give_up()
        self._flush()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()
            self._expiry.wait(_LINGER_SECONDS)
        else:
            self.close()

    def close(self) -> None:
        """Closes the connection. Queued data are still sent."""
        self._is_deaf = True
        self._give_up()
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _give_up(self) -> None:
        self._calls.drop_all()
        self._all.rest(self)


def _nothing(_: zttp.GoAway) -> None:
    """Ignores a GOAWAY: the client closes the connection after its calls are answered."""
