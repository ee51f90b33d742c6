"""The headers and trailers of a call, and replies to requests that become no call."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelflow.serve.grpc.http2.message_reader import ENCODINGS
from modelflow.serve.grpc.interceptor import CallStatus, ending_of
from modelflow.wire.problem import Problem, refuse, shorten

if TYPE_CHECKING:
    from zttp import Request, Stream


Pairs = list[tuple[bytes, bytes]]

_GRPC = b"application/grpc"
# HTTP/2 counts so much for each header beside its text (RFC 9113, 6.5.2).
_PER_HEADER = 32
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_DIGITS = 8  # at most, of a time

ACCEPTED: Pairs = [(b"content-type", _GRPC), (b"grpc-accept-encoding", ENCODINGS)]
"""The headers of every answer."""

OK: Pairs = [(b"grpc-status", b"0")]
"""The trailers of a call that was answered."""

_ESCAPED = {
    byte: (b"%c" if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X") % byte
    for byte in range(256)
}


@dataclass(frozen=True, slots=True)
class CallHead:
    """What the headers of a call say.

    Attributes:
        is_grpc: It is a call, and no other request over HTTP/2.
        time_out: ``grpc-timeout`` as it came; None: there is none.
        encoding: What its messages may be compressed with.
        size: How many bytes the headers are, as HTTP/2 counts them.
        is_marked: One of the headers is to be seen by the middleware.
    """

    is_grpc: bool
    time_out: bytes | None
    encoding: bytes
    size: int
    is_marked: bool


def head_of(headers: Iterable[tuple[bytes, bytes]], marks: frozenset[bytes]) -> CallHead:
    """Returns what headers say; ``marks`` are the names that the middleware asks for."""
    kind, time_out, encoding, size, is_marked = b"", None, b"identity", 0, False
    for name, value in headers:
        size += len(name) + len(value) + _PER_HEADER
        if name == b"content-type":
            kind = value
        elif name == b"grpc-timeout":
            time_out = value
        elif name == b"grpc-encoding":
            encoding = value
        elif name in marks:
            is_marked = True
    is_grpc = kind == _GRPC or kind.startswith((_GRPC + b"+", _GRPC + b";"))
    return CallHead(is_grpc, time_out, encoding, size, is_marked)


def seconds_of(time_out: bytes | None) -> float | None:
    """Returns how long a client waits, in seconds; None: for ever.

    Raises:
        Problem: ``grpc-timeout`` is not what it should be.
    """
    if time_out is None:
        return None
    digits, unit = time_out[:-1], _UNITS.get(time_out[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _DIGITS:
        refuse(
            f"grpc-timeout: got {shorten(time_out.decode('latin-1'))}; expected up to {_DIGITS} "
            "digits and a unit (H, M, S, m, u, n)"
        )
    return int(digits) * unit


def trailers_of(ending: CallStatus) -> Pairs:
    """Returns how a call that failed ends, as headers; the text is percent-encoded."""
    text = b"".join(map(_ESCAPED.__getitem__, ending.text.encode()))
    return [
        (b"grpc-status", b"%d" % ending.status),
        (b"grpc-message", text),
        *pairs_of(ending.metadata),
    ]


def pairs_of(metadata: Sequence[tuple[str, str]]) -> Pairs:
    """Returns metadata as headers."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in metadata]


def texts_of(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Returns headers as metadata; those that are bytes (``-bin``) are left out: none is read."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if not name.endswith(b"-bin")
    ]


_NO_ERROR = 0


def refuse_request(request: "Request", head: CallHead, stream: "Stream") -> bool:
    """Answers what is no call over gRPC, as HTTP does; False: it is one."""
    if request.method != b"POST":
        stream.send_response(405, [(b"allow", b"POST")], end_stream=True)
    elif not head.is_grpc:
        stream.send_response(415, [(b"accept", b"application/grpc")], end_stream=True)
    else:
        return False
    end_stream(stream, is_heard=request.end_stream)
    return True


def refuse_call(problem: Problem, stream: "Stream", *, is_heard: bool) -> None:
    """Answers a call that does not begin."""
    trailers = trailers_of(ending_of(problem))
    stream.send_response(200, ACCEPTED + trailers, end_stream=True)
    end_stream(stream, is_heard=is_heard)


def end_stream(stream: "Stream", *, is_heard: bool) -> None:
    """Ends a stream that is answered whole; nothing more is read of it."""
    if not is_heard:
        stream.reset(_NO_ERROR)
