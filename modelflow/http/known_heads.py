r"""Heads of requests that have come before: a client sends the same one with every request.

What a head means depends on its bytes alone. So where a message begins with one that was read
before, and ends with the body that it announces, nothing of it need be read again::

    b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 37\r\n\r\n" + 37 bytes
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KnownHead", "KnownHeads"]

# Heads that are kept, and the longest of them in bytes: 1 MiB together.
_MOST = 512
_LONGEST = 2048
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A head as it was read: of a request over HTTP/1.1 behind which the connection goes on."""

    method: str
    """``POST``, ..."""
    target: str
    """Path and query, as sent."""
    headers: Sequence[tuple[bytes, bytes]]
    """Names in lower case, and values."""
    length: int
    """Bytes of the body that it announces."""


class KnownHeads:
    """The heads that the connections of a server have sent more than once. For its thread alone."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}

    def find(self, message: bytes) -> tuple[KnownHead, bytes] | None:
        """Returns the head of a whole message and its body; None: it is to be read."""
        end = message.find(_END, 0, _LONGEST) + len(_END)
        known = self._known.get(message[:end])  # b"\r\n\r\n" alone, or less, is nobody's head
        if known is None or len(message) != end + known.length:
            return None
        return known, message[end:]

    def learn(self, message: bytes, known: KnownHead) -> None:
        """Keeps the head of a whole message, which was read as ``known``.

        Where there are too many all are forgotten: those in use come again.
        """
        end = len(message) - known.length
        if len(_END) < end <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[message[:end]] = known
