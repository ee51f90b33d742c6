"""Flow-control credit and age of a connection."""

import struct
from enum import Enum

from modelflow.serve.grpc.http2.call import GrpcCall

_SETTINGS, _WINDOW_UPDATE = 4, 8
_HEAD = struct.Struct(">HBBBI")  # length in 24 bits, kind, flags, stream
_MOST_STREAMS, _WINDOW, _HEADER_BYTES = 3, 4, 6  # settings
# What zttp takes at most, and says itself.
_ZTTP_STREAMS, _ZTTP_HEADER_BYTES = 128, 64 << 10
# How much a client may send that is not acknowledged: with the 64 KiB that are usual, 600 kB are
# ten times there and back (benchmarks/serving_grpc.py). zttp counts 64 KiB, of what it has yet to
# give us, and gives credit when we take it: so whatever comes, it is never more.
_STREAM_WINDOW, _CONNECTION_WINDOW = 1 << 20, 16 << 20
_USUAL_WINDOW = (1 << 16) - 1


def opening(streams: int, header_bytes: int) -> bytes:
    """Returns what a server says first: its settings, and how much may come.

    Args:
        streams: Most calls at once.
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
    """Keeps back what clients may send to calls that take nothing more.

    zttp gives the credit of a stream back as soon as its data are taken from it, which they must be
    for the other streams' sake; so it is taken out of what zttp sends. For the loop's thread.
    """

    def __init__(self) -> None:
        self._ahead: list[bytes] = []

    def hold(self, call: GrpcCall, sent: bytes) -> None:
        """Keeps a call's credit out of what zttp has to send."""
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
        """Gives a call's credit to the client."""
        if call.credit:
            self._ahead.append(_window_update(call.stream.stream_id, call.credit))
            call.credit = 0

    def join(self, sent: bytes) -> bytes:
        """Returns what there is to send: what was taken from zttp before, and this."""
        if not self._ahead:
            return sent
        data = b"".join((*self._ahead, sent))
        self._ahead.clear()
        return data


def _window_update(stream: int, credit: int) -> bytes:
    return _frame(_WINDOW_UPDATE, stream, credit.to_bytes(4, "big"))


def _frame(kind: int, stream: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body) >> 8, len(body) & 0xFF, kind, 0, stream) + body


# zttp ends a connection at its 4097th stream, and at its 257th that is reset or malformed, whatever
# is under way then. A client may have 128 under way when it is asked to go.
_STREAMS, _LAST_STREAMS = 3800, 3950
_RESETS = 100
# Pings and settings a second; each is answered.
_SIGNALS = 1000


class ConnectionWorn(Enum):
    """What a connection is still good for."""

    NOT = "everything"
    OLD = "what is under way, and what comes until its client knows"
    OUT = "what is under way"


class ConnectionAge:
    """Counts what a connection was used for."""

    def __init__(self) -> None:
        self._streams = self._resets = self._signals = 0
        self._since = 0.0

    @property
    def state(self) -> ConnectionWorn:
        """What it is still good for."""
        if self._streams >= _LAST_STREAMS:
            return ConnectionWorn.OUT
        return (
            ConnectionWorn.OLD
            if self._streams >= _STREAMS or self._resets >= _RESETS
            else ConnectionWorn.NOT
        )

    def stream(self) -> ConnectionWorn:
        """Counts a stream that begins."""
        self._streams += 1
        if self._streams < _STREAMS and self._resets < _RESETS:
            return ConnectionWorn.NOT
        return self.state

    def reset(self) -> ConnectionWorn:
        """Counts a stream that its client gives up, or that was none."""
        self._resets += 1
        return self.state

    def is_flooded(self, now: float) -> bool:
        """Counts a ping, or settings, at a moment in seconds; True: there are too many."""
        if now - self._since > 1.0:
            self._since, self._signals = now, 0
        self._signals += 1
        return self._signals > _SIGNALS
