r"""Heads of requests that have come before: a client sends the same one with every request.

What a head means depends on its bytes alone. So where a message begins with one that was read
before, and ends with the body that it announces, nothing of it need be read again::

    b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 37\r\n\r\n" + 37 bytes
"""

from modelflow.http.request_head import RequestHead

__all__ = ["KnownHeads"]

# Heads that are kept, and the longest of them in bytes: 1 MiB together.
_MOST = 512
_LONGEST = 2048
_END = b"\r\n\r\n"


class KnownHeads:
    """The heads that the connections of a server have sent more than once. For its thread alone.

    Each of a request over HTTP/1.1 behind which the connection goes on.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[RequestHead, int]] = {}  # and the length of the body

    def find(self, message: bytes) -> tuple[RequestHead, bytes] | None:
        """Returns the head of a whole message and its body; None: it is to be read."""
        end = message.find(_END, 0, _LONGEST) + len(_END)
        known = self._known.get(message[:end])  # b"\r\n\r\n" alone, or less, is nobody's head
        if known is None or len(message) != end + known[1]:
            return None
        return known[0], message[end:]

    def learn(self, message: bytes, head: RequestHead, length: int) -> None:
        """Keeps the head of a whole message, which was read as ``head``.

        Where there are too many all are forgotten: those in use come again.

        Args:
            message: Head and body.
            head: What the head says.
            length: Bytes of the body.
        """
        end = len(message) - length
        if len(_END) < end <= _LONGEST:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[message[:end]] = head, length
