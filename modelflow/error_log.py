"""Errors of single items, told as they happen: of each kind so many, the rest is counted.

Of 2 000 pictures 300 are no JPEG, and one is too large. Twenty lines name the first twenty, one
says 280 more of that kind, and one names the large one.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError, below_here

logger = logging.getLogger("modelflow")

# So many of a kind are told at once, and later one in so many seconds.
_AT_ONCE = 20
_SECONDS = 10.0

# Kinds that are told apart; the rest is one kind: an endless job has endless messages.
_MOST_KINDS = 1000


@dataclass
class ErrorKind:
    """Errors of one node, one class and one line of code.

    Attributes:
        node: The node where they arose; ``""`` beyond the first 1000 kinds, for all of those.
        type: The class of what was raised.
        count: How many there were.
        first: What was told of the first.
        told: How many of them had come when the last was told.
        told_at: When that was.
    """

    node: str
    type: str
    first: str
    count: int = 0
    told: int = 0
    told_at: float = 0.0

    def is_told(self, now: float) -> str | None:
        """Counts one; returns what is said of those before it, None: it is not told itself."""
        self.count += 1
        if self.count > _AT_ONCE and now - self.told_at < _SECONDS:
            return None
        untold, self.told, self.told_at = self.untold - 1, self.count, now
        return f" (and {untold} of this kind before)" if untold else ""

    @property
    def untold(self) -> int:
        """How many were not told since the last that was."""
        return self.count - self.told


class ErrorLog:
    """Tells errors as they happen, and counts them by kind. Safe from any thread."""

    def __init__(
        self,
        tell: Callable[[str, FlowUnitError | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Has nothing to tell yet.

        Args:
            tell: Takes what is said of an error, and the error; None: of the last that `close`
                tells.
            clock: The time in seconds.
        """
        self._tell = tell
        self._clock = clock
        self._kinds: dict[tuple[str, str, str], ErrorKind] = {}
        self._lock = threading.Lock()

    def add(self, buffer: Buffer) -> None:
        """Tells the error of a buffer, or counts it where many of its kind were told."""
        error = buffer.error
        assert error is not None  # the caller has looked
        where, cause = error.where, error.__cause__ or error
        item = item_of(buffer)
        text = f"{item}: {error}" if item else str(error)
        if where:
            text += f" ({where})"
        with self._lock:
            key = (error.node, type(cause).__name__, where)
            if key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
                key = ("", "", "")
            kind = self._kinds.setdefault(key, ErrorKind(key[0], key[1], text))
            before = kind.is_told(self._clock())
        if before is not None:
            self._tell(text + before, error)

    def close(self) -> None:
        """Tells of each kind how many were not told; may be called again."""
        with self._lock:
            left = [kind for kind in self._kinds.values() if kind.untold]
            texts = [f"{kind.untold} more as: {kind.first}" for kind in left]
            for kind in left:
                kind.told = kind.count
        for text in texts:
            self._tell(text, None)

    @property
    def count(self) -> int:
        """How many errors there were."""
        with self._lock:
            return sum(kind.count for kind in self._kinds.values())

    @property
    def kinds(self) -> list[ErrorKind]:
        """Returns the kinds, the most frequent first."""
        with self._lock:
            return sorted(self._kinds.values(), key=lambda kind: -kind.count)


def item_of(buffer: Buffer) -> str:
    """Names the item that a buffer came from: a file, a frame of a video; ``""``: unknown.

    The path is relative to the working folder, if it is below that.
    """
    path = buffer.get("path")
    if not isinstance(path, str | PurePath):
        return ""
    name = below_here(str(path))
    is_frame = buffer.get("rate_num") is not None
    return f"{name}, frame {buffer.get('index')}" if is_frame else name


def log_error(text: str, error: FlowUnitError | None) -> None:
    """Writes an error that nobody reads into the log of modelflow; at DEBUG with its traceback."""
    details = error.__cause__ if error and logger.isEnabledFor(logging.DEBUG) else None
    logger.error("%s", text, exc_info=details)
