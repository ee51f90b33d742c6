"""Flow-control credit and age of a connection."""

import struct
from enum import Enum

from modelflow.serve.grpc.http2.call import GrpcCall

_SETTINGS, _WINDOW_UPDATE = 4, 8
_HEAD = struct.Struct(">HBBBI")  # length in 24 bits, kind, flags, stream
_MOST_STREAMS, _WINDOW, _HEADER_BYTES = 3, 4, 6  # settings
# The limits that zttp enforces and announces.
_ZTTP_STREAMS, _ZTTP_HEADER_BYTES = 128, 64 << 10
# The flow-control windows: bytes that a client may send before an acknowledgement. With the usual
# 64 KiB, a message of 600 kB needs ten round trips (benchmarks/serving_grpc.py). In zttp the
# limit is 64 KiB, but only for data that we have not taken yet. It returns the credit when we take
# the data, so the larger windows never exceed zttp's limit.
_STREAM_WINDOW, _CONNECTION_WINDOW = 1 << 20, 16 << 20
_USUAL_WINDOW = (1 << 16) - 1


def opening(streams: int, header_bytes: int) -> bytes:
    """Returns the first bytes of a server: its settings and the connection window.

    Args:
        streams: Most simultaneous calls.
        header_bytes: Most bytes of the headers of a call.
    """
    settings = {
        _MOST_STREAMS: min(streams, _ZTTP_STREAMS),
        _WINDOW: _STREAM_WINDOW,
        _HEADER_BYTES: min(header_bytes, _ZTTP_HEADER_BYTES),
    }
    body = b"".join(struct.pack(">HI", *pair) for pair in settings.items())
    return _frame(_SETTINGS, 0, body) + _window_update(0, _CONNECTION_WINDOW - _USUAL_WINDOW)


class Credit:
    """The withheld flow-control credit of calls that accept no further messages.

    zttp returns the credit of a stream as soon as its data are taken. The data must be taken,
    because they would block the other streams. So this class removes the credit frames from zttp's
    output. Call the methods on the loop's thread.
    """

    def __init__(self) -> None:
        self._ahead: list[bytes] = []

    def hold(self, call: GrpcCall, sent: bytes) -> None:
        """Removes a call's credit frames from zttp's output."""
        number, at = call.stream.stream_id, 0
        while at < len(sent):
            high, low, kind, _, stream = _HEAD.unpack_from(sent, at)
            end = at + _HEAD.size + (high << 8 | low)
            if kind == _WINDOW_UPDATE and stream == number:
                call.credit += int.from_bytes(sent[at + _HEAD.size : end], "big")
            else:
                self._ahead.append(sent[at:end])
            at = end

    def release(self, call: GrpcCall) -> None:
        """Queues the withheld credit of a call for sending."""
        if call.credit:
            self._ahead.append(_window_update(call.stream.stream_id, call.credit))
            call.credit = 0

    def join(self, sent: bytes) -> bytes:
        """Returns all data to send: the frames that `hold` took from zttp, then ``sent``."""
        if not self._ahead:
            return sent
        data = b"".join((*self._ahead, sent))
        self._ahead.clear()
        return data


def _window_update(stream: int, credit: int) -> bytes:
    return _frame(_WINDOW_UPDATE, stream, credit.to_bytes(4, "big"))


def _frame(kind: int, stream: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body) >> 8, len(body) & 0xFF, kind, 0, stream) + body


# zttp closes a connection at its 4097th stream, and at its 257th stream that is reset or malformed,
# even if calls are running. A client may have 128 running calls when GOAWAY is sent, hence the
# margins.
_STREAMS, _LAST_STREAMS = 3800, 3950
_RESETS = 100
# Most pings and settings per second, because each costs a reply.
_SIGNALS = 1000


class ConnectionWorn(Enum):
    """The remaining use of a connection."""

    NOT = "everything"
    OLD = "running calls, and calls that the client sends before it receives GOAWAY"
    OUT = "running calls"


class ConnectionAge:
    """The counters of a connection's streams, resets, pings and settings."""

    def __init__(self) -> None:
        self._streams = self._resets = self._signals = 0
        self._since = 0.0

    @property
    def state(self) -> ConnectionWorn:
        """Returns the remaining use of the connection."""
        if self._streams >= _LAST_STREAMS:
            return ConnectionWorn.OUT
        return (
            ConnectionWorn.OLD
            if self._streams >= _STREAMS or self._resets >= _RESETS
            else ConnectionWorn.NOT
        )

    def stream(self) -> ConnectionWorn:
        """Counts a new stream."""
        self._streams += 1
        if self._streams < _STREAMS and self._resets < _RESETS:
            return ConnectionWorn.NOT
        return self.state

    def reset(self) -> ConnectionWorn:
        """Counts a stream that the client has reset, or that was malformed."""
        self._resets += 1
        return self.state

    def is_flooded(self, now: float) -> bool:
        """Counts a ping or settings frame. Returns True for more than `_SIGNALS` per second."""
        if now - self._since > 1.0:
            self._since, self._signals = now, 0
        self._signals += 1
        return self._signals > _SIGNALS
