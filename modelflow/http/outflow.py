"""An answer that is sent as it comes, part by part."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Outflow", "StreamedReply"]


class Outflow:
    """The body of an answer that is being sent. For the server's thread.

    Attributes:
        on_room: Called when the client has taken what it was sent, and takes more.
        on_gone: Called when it has gone before the end.
        sent: How many bytes of the body were sent.
    """

    __slots__ = ("_end", "_is_chunked", "_is_over", "_room", "_write", "on_gone", "on_room", "sent")

    def __init__(
        self,
        write: Callable[[bytes], None],
        room: Callable[[], bool],
        end: Callable[[], None],
        *,
        is_chunked: bool,
    ) -> None:
        """Made by the connection.

        Args:
            write: Takes bytes for the client.
            room: Tells whether the client takes what it is sent.
            end: Called behind the last part.
            is_chunked: Each part says its length; else the end of the connection is the end.
        """
        self.on_room: Callable[[], None] = _nothing
        self.on_gone: Callable[[], None] = _nothing
        self.sent = 0
        self._write = write
        self._room = room
        self._end = end
        self._is_chunked = is_chunked
        self._is_over = False

    @property
    def has_room(self) -> bool:
        """Tells whether the client takes what it is sent; more is kept in memory until it does."""
        return not self._is_over and self._room()

    def send(self, data: bytes) -> None:
        """Sends a part."""
        if data and not self._is_over:  # a part of no bytes would be the end
            self.sent += len(data)
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def end(self) -> None:
        """Ends the answer."""
        if not self._is_over:
            self._is_over = True
            if self._is_chunked:
                self._write(b"0\r\n\r\n")
            self._end()

    def gone(self) -> None:
        """Notes that the client has gone (called by the connection)."""
        if not self._is_over:
            self._is_over = True
            self.on_gone()


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """An answer whose body comes part by part.

    Attributes:
        status: The HTTP status.
        begin: Called when its turn has come: all that was asked for before on the same connection
            is answered. Is given what the body goes into.
        headers: Name -> value.
    """

    status: int
    begin: Callable[[Outflow], None]
    headers: Mapping[str, str] = field(default_factory=dict)


def _nothing() -> None:
    """What is called where nobody wants to know."""
