"""Splits the data of a call into messages. A prefix of five bytes precedes each message."""

import zlib
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from modelflow.http.reply import BodyBudget
from modelflow.wire.problem import Code, Problem, refuse, shorten

_PREFIX = 5
# The `wbits` of zlib for each encoding. `deflate` is zlib's format.
_WINDOWS: Mapping[bytes, int] = MappingProxyType({b"gzip": 31, b"deflate": 15})

ENCODINGS = b"identity,deflate,gzip"
"""The encodings that the server announces to clients."""


class MessageReader:
    """A parser of the messages of a call. Call the methods on the loop's thread.

    The reader takes the bytes from the budget on arrival. The receiver of a message must give the
    bytes of the message back.
    """

    __slots__ = (
        "_at",
        "_budget",
        "_encoding",
        "_expected",
        "_is_packed",
        "_most",
        "_parts",
        "size",
    )

    def __init__(self, most: int, budget: BodyBudget, encoding: bytes = b"identity") -> None:
        """Stores the limits.

        Args:
            most: Most bytes of a message, also after decompression.
            budget: The byte budget of the server.
            encoding: The encoding of the messages that are marked as compressed.
        """
        self.size = 0
        """The number of received bytes that no returned message contains."""
        self._most = most
        self._budget = budget
        self._encoding = encoding
        self._parts: deque[bytes] = deque()
        self._at = 0  # the used bytes of the first part
        self._expected: int | None = None  # bytes of the message; None before its prefix
        self._is_packed = False

    @property
    def is_between(self) -> bool:
        """Returns whether the data end exactly after a message."""
        return not self.size and self._expected is None

    @property
    def has_more(self) -> bool:
        """Returns whether data follow the message whose prefix `look` has read."""
        return self._expected is not None and self.size > self._expected

    def add(self, data: bytes) -> None:
        """Adds received data.

        Raises:
            Problem: The byte budget is used up.
        """
        before = self._held
        self.size += len(data)
        if not self._budget.take(self._held - before):
            self.size -= len(data)
            refuse(
                "there is no room for the message: other requests use the whole byte budget",
                Code.RESOURCE_EXHAUSTED,
            )
        self._parts.append(data)

    def look(self) -> None:
        """Reads and checks the prefix of the next message if the prefix has arrived.

        Raises:
            Problem: The message is too long, or its prefix is invalid.
        """
        if self._expected is None and self.size >= _PREFIX:
            self._begin(self._cut(_PREFIX))

    def next(self) -> bytes | None:
        """Returns the next message, or None if the message is incomplete.

        The caller gives the bytes of the message back to the budget.

        Raises:
            Problem: The message is too long, or cannot be decompressed.
        """
        self.look()
        expected = self._expected
        if expected is None or self.size < expected:
            return None
        data = self._cut(expected)
        self._expected = None
        rest = self._held  # the budget does not count the next prefix
        self._budget.give_back(self.size - rest)
        return self._unpack(data) if self._is_packed else data

    def only(self, where: str, is_all: bool) -> bytes | None:
        """Returns the only message of a call after all data have arrived, or None before.

        Args:
            where: The called method, for error messages.
            is_all: Whether all data have arrived.

        Raises:
            Problem: As in `next`, or the call has several messages or none.
        """
        self.look()
        if self.has_more:
            refuse(f"{where}: got several messages; expected one", Code.UNIMPLEMENTED)
        if not is_all:
            return None
        found = self.next()
        if found is None and self.is_between:
            refuse(f"{where}: got no message; expected one", Code.UNIMPLEMENTED)
        return found

    def drop(self) -> None:
        """Discards the data, and gives their bytes back to the budget."""
        self._budget.give_back(self._held)
        self._parts.clear()
        self.size = self._at = 0
        self._expected = None

    @property
    def _held(self) -> int:
        """Returns the number of bytes taken from the budget: all data except the first prefix."""
        return self.size if self._expected is not None else max(0, self.size - _PREFIX)

    def _begin(self, prefix: bytes) -> None:
        flag, length = prefix[0], int.from_bytes(prefix[1:], "big")
        self._expected = length
        if flag > 1:
            refuse(
                f"a message begins with the byte {flag}; expected 0, or 1 if it is compressed",
                Code.INTERNAL,
            )
        if length > self._most:
            raise self._too_long(length)
        self._is_packed = flag == 1
        if self._is_packed and self._encoding not in _WINDOWS:
            text = (
                f"a message is compressed, and grpc-encoding is "
                f"{shorten(self._encoding.decode())}; "
                f"expected one of {ENCODINGS.decode()}"
            )
            is_said = self._encoding != b"identity"
            raise Problem(text, Code.UNIMPLEMENTED if is_said else Code.INTERNAL)

    def _cut(self, count: int) -> bytes:
        """Removes and returns the first ``count`` bytes, which have arrived, with one copy."""
        self.size -= count
        found: list[bytes | memoryview] = []
        while count:
            part, at = self._parts[0], self._at
            end = at + count
            if end < len(part):
                self._at = end
            else:
                end, self._at = len(part), 0
                self._parts.popleft()
            found.append(memoryview(part)[at:end])
            count -= end - at
        return b"".join(found)

    def _unpack(self, data: bytes) -> bytes:
        """Returns a decompressed message. The budget then counts the decompressed bytes."""
        try:
            whole = self._decompress(data)
        except Problem:
            self._budget.give_back(len(data))
            raise
        self._budget.give_back(len(data))
        if not self._budget.take(len(whole)):
            refuse(
                "no room for the decompressed message: other requests use the whole byte budget",
                Code.RESOURCE_EXHAUSTED,
            )
        return whole

    def _decompress(self, data: bytes) -> bytes:
        encoding = self._encoding.decode()
        reader = zlib.decompressobj(_WINDOWS[self._encoding])
        try:
            whole = reader.decompress(data, self._most + 1)
        except zlib.error as error:
            refuse(f"a message is no {encoding}: {error}", Code.INTERNAL, cause=error)
        if len(whole) > self._most:
            raise self._too_long(len(whole))
        if not reader.eof:
            refuse(f"a message ends in the middle of its {encoding}", Code.INTERNAL)
        return whole

    def _too_long(self, found: int) -> Problem:
        text = f"Received message larger than max ({found} vs. {self._most})"
        return Problem(text, Code.RESOURCE_EXHAUSTED)


def frame_message(message: bytes) -> bytes:
    """Returns the message with its prefix, ready to send."""
    return b"\0" + len(message).to_bytes(4, "big") + message
