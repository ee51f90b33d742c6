r"""Heads of requests that have come before: a client sends the same one with every request.

What a head means depends on its bytes alone. So where a message begins with one that was read
before, and ends with the body that it announces, nothing of it need be read again::

    b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 37\r\n\r\n" + 37 bytes
"""

from modelflow.http.request_head import RequestHead

__all__ = ["END", "LONGEST", "KnownHeads"]

LONGEST = 2048
"""Bytes of the longest head that is kept."""
END = b"\r\n\r\n"
"""What is behind a head."""

_MOST = 512  # heads that are kept: 1 MiB together


class KnownHeads:
    """The heads that the connections of a server have sent more than once. For its thread alone.

    Each of a request over HTTP/1.1 behind which the connection goes on.

    Attributes:
        known: By their bytes, up to the body; with the length of that.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[RequestHead, int]] = {}

    def find(self, message: bytes) -> tuple[RequestHead, bytes] | None:
        """Returns the head of a whole message and its body; None: it is to be read."""
        end = message.find(END, 0, LONGEST) + len(END)
        known = self.known.get(message[:end])  # b"\r\n\r\n" alone, or less, is nobody's head
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
        if len(END) < end <= LONGEST:
            if len(self.known) >= _MOST:
                self.known.clear()
            self.known[message[:end]] = head, length
