"""The headers and trailers of a call, and the replies to refused requests."""

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
# The bytes that HTTP/2 adds to the size of each header (RFC 9113, 6.5.2).
_PER_HEADER = 32
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_DIGITS = 8  # the most digits of a timeout

ACCEPTED: Pairs = [(b"content-type", _GRPC), (b"grpc-accept-encoding", ENCODINGS)]
"""The headers of every reply."""

OK: Pairs = [(b"grpc-status", b"0")]
"""The trailers of a successful call."""

_ESCAPED = {
    byte: (b"%c" if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X") % byte
    for byte in range(256)
}


@dataclass(frozen=True, slots=True)
class CallHead:
    """The values of the headers of a call.

    Attributes:
        is_grpc: Whether the request is a gRPC call, and not another HTTP/2 request.
        time_out: The unparsed value of ``grpc-timeout``, or None.
        encoding: The compression of the call's messages.
        size: The bytes of the headers, as HTTP/2 counts them.
        is_marked: Whether the middleware needs one of the headers.
    """

    is_grpc: bool
    time_out: bytes | None
    encoding: bytes
    size: int
    is_marked: bool


def head_of(headers: Iterable[tuple[bytes, bytes]], marks: frozenset[bytes]) -> CallHead:
    """Returns the values of headers. ``marks`` are the header names that the middleware needs."""
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
    """Returns the timeout of a call in seconds, or None for no timeout.

    Raises:
        Problem: ``grpc-timeout`` is invalid.
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
    """Returns the trailers of a failed call. The text is percent-encoded."""
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
    """Returns headers as metadata. Binary headers (``-bin``) are left out because none is used."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if not name.endswith(b"-bin")
    ]


_NO_ERROR = 0


def refuse_request(request: "Request", head: CallHead, stream: "Stream") -> bool:
    """Answers a request that is no gRPC call with an HTTP error. Returns False for a gRPC call."""
    if request.method != b"POST":
        stream.send_response(405, [(b"allow", b"POST")], end_stream=True)
    elif not head.is_grpc:
        stream.send_response(415, [(b"accept", b"application/grpc")], end_stream=True)
    else:
        return False
    end_stream(stream, is_heard=request.end_stream)
    return True


def refuse_call(problem: Problem, stream: "Stream", *, is_heard: bool) -> None:
    """Answers a refused call with an error status."""
    trailers = trailers_of(ending_of(problem))
    stream.send_response(200, ACCEPTED + trailers, end_stream=True)
    end_stream(stream, is_heard=is_heard)


def end_stream(stream: "Stream", *, is_heard: bool) -> None:
    """Ends a stream after its reply. Further data from the client are not read."""
    if not is_heard:
        stream.reset(_NO_ERROR)
