"""What the headers of a call say, and what is said at its end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelflow.serve.grpc.http2.message_reader import ENCODINGS
from modelflow.serve.grpc.passage import Ending
from modelflow.wire.problem import Problem, shown

__all__ = [
    "ACCEPTED",
    "LONGEST_TIME",
    "OK",
    "CallHead",
    "Pairs",
    "head_of",
    "pairs_of",
    "seconds_of",
    "texts_of",
    "trailers_of",
    "without_deadline",
]

Pairs = list[tuple[bytes, bytes]]

_GRPC = b"application/grpc"
# HTTP/2 counts so much for each header beside its text (RFC 9113, 6.5.2).
_PER_HEADER = 32
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_DIGITS = 8  # at most, of a time

LONGEST_TIME = 64
"""No deadline that is one takes so many bytes of a head."""

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
        is_marked: One of the headers is to be seen by the reception.
    """

    is_grpc: bool
    time_out: bytes | None
    encoding: bytes
    size: int
    is_marked: bool


def head_of(headers: Iterable[tuple[bytes, bytes]], marks: frozenset[bytes]) -> CallHead:
    """Returns what headers say; ``marks`` are the names that the reception asks for."""
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


def without_deadline(headers: Sequence[tuple[bytes, bytes]]) -> tuple[Pairs, bytes | None]:
    """Returns the headers without ``grpc-timeout``, and that; None: it is not there just once."""
    found = [at for at, (name, _) in enumerate(headers) if name == b"grpc-timeout"]
    if len(found) != 1:
        return [*headers], None
    at = found[0]
    return [*headers[:at], *headers[at + 1 :]], headers[at][1]


def seconds_of(time_out: bytes | None) -> float | None:
    """Returns how long a client waits, in seconds; None: for ever.

    Raises:
        Problem: ``grpc-timeout`` is not what it should be.
    """
    if time_out is None:
        return None
    digits, unit = time_out[:-1], _UNITS.get(time_out[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _DIGITS:
        message = (
            f"grpc-timeout: got {shown(time_out.decode('latin-1'))}; expected up to {_DIGITS} "
            "digits and a unit (H, M, S, m, u, n)"
        )
        raise Problem(message)
    return int(digits) * unit


def trailers_of(ending: Ending) -> Pairs:
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
