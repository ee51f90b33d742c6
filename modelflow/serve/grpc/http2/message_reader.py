"""The messages of a call, cut out of what comes on its stream: five bytes stand before each."""

import zlib
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from modelflow.http.reply import BodyBudget
from modelflow.wire.problem import Code, Problem, refuse, shorten

_PREFIX = 5
# How zlib is told of each form; `deflate` is the zlib form.
_WINDOWS: Mapping[bytes, int] = MappingProxyType({b"gzip": 31, b"deflate": 15})

ENCODINGS = b"identity,deflate,gzip"
"""What a client is told that it may compress with."""


class MessageReader:
    """Cuts a call's messages out of its bytes. For the loop's thread.

    Its bytes are taken from the budget as they come; those of a message are then its owner's.
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
        """Takes what there may come.

        Args:
            most: Most bytes of a message, also when it is decompressed.
            budget: Where the bytes are taken from.
            encoding: What those messages are compressed with that say that they are.
        """
        self.size = 0
        """How many bytes have come, and are no message yet."""
        self._most = most
        self._budget = budget
        self._encoding = encoding
        self._parts: deque[bytes] = deque()
        self._at = 0  # so much of the first part is gone
        self._expected: int | None = None  # bytes of the message; None: its prefix is not there
        self._is_packed = False

    @property
    def is_between(self) -> bool:
        """Tells whether nothing of a message is there, and all of those before it."""
        return not self.size and self._expected is None

    @property
    def has_more(self) -> bool:
        """Tells whether there is something behind the message that `look` has looked at."""
        return self._expected is not None and self.size > self._expected

    def add(self, data: bytes) -> None:
        """Takes what has come.

        Raises:
            Problem: there is no room for it beside other messages.
        """
        before = self._held
        self.size += len(data)
        if not self._budget.take(self._held - before):
            self.size -= len(data)
            refuse(
                "there is no room for the message beside those of other requests",
                Code.RESOURCE_EXHAUSTED,
            )
        self._parts.append(data)

    def look(self) -> None:
        """Looks whether the next message may come, as soon as it says how long it is.

        Raises:
            Problem: it is too long, or not what it should be.
        """
        if self._expected is None and self.size >= _PREFIX:
            self._begin(self._cut(_PREFIX))

    def next(self) -> bytes | None:
        """Returns the next message, whose bytes are its owner's to give back; None: not yet.

        Raises:
            Problem: it is too long, or not what it says.
        """
        self.look()
        expected = self._expected
        if expected is None or self.size < expected:
            return None
        data = self._cut(expected)
        self._expected = None
        rest = self._held  # the prefix behind it is not counted
        self._budget.give_back(self.size - rest)
        return self._unpack(data) if self._is_packed else data

    def only(self, where: str, is_all: bool) -> bytes | None:
        """Returns the only message, when it is sure that there is no other; None: not yet.

        Args:
            where: What is called, for messages.
            is_all: Everything has come.

        Raises:
            Problem: as `next`; there are several, or there is none.
        """
        self.look()
        if self.has_more:
            refuse(f"{where}: there are several messages; expected one", Code.UNIMPLEMENTED)
        if not is_all:
            return None
        found = self.next()
        if found is None and self.is_between:
            refuse(f"{where}: there is no message; expected one", Code.UNIMPLEMENTED)
        return found

    def drop(self) -> None:
        """Gives everything back: nobody will read it."""
        self._budget.give_back(self._held)
        self._parts.clear()
        self.size = self._at = 0
        self._expected = None

    @property
    def _held(self) -> int:
        """How many bytes are taken from the budget: all but the prefix that comes first."""
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
        """The first so many bytes, which are there, copied once."""
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
        """A message decompressed; the budget holds what it is then."""
        try:
            whole = self._decompress(data)
        except Problem:
            self._budget.give_back(len(data))
            raise
        self._budget.give_back(len(data))
        if not self._budget.take(len(whole)):
            refuse(
                "there is no room for the decompressed message beside those of other requests",
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
    """Returns a message as it goes out, behind its prefix."""
    return b"\0" + len(message).to_bytes(4, "big") + message
