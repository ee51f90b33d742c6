"""Logs the errors of single items, and only counts errors of a kind beyond its limit.

Example: of 2 000 pictures, 300 are no JPEG and one is too large. Twenty lines name the first
twenty, one line says 280 more of that kind, and one line names the large picture.
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

# The first 20 errors of a kind are logged at once, then at most one in 10 seconds.
_AT_ONCE = 20
_SECONDS = 10.0

# Limits memory: a job without end can have kinds without end. All further kinds count as one.
_MOST_KINDS = 1000


@dataclass
class ErrorKind:
    """Errors of one node, one class and one line of code.

    Attributes:
        node: The node where the errors arose; ``""`` for all kinds beyond the first 1000.
        type: The class of the exception.
        first: The text that was logged for the first error.
        count: The number of errors.
        told: The value of ``count`` when an error was last logged.
        told_at: The time when an error was last logged, in seconds of the clock.
    """

    node: str
    type: str
    first: str
    count: int = 0
    told: int = 0
    told_at: float = 0.0

    def is_told(self, now: float) -> str | None:
        """Counts an error, and returns the end of its log line, or None for no line.

        The end of the line is empty, or names the number of errors that were not logged before.
        """
        self.count += 1
        if self.count > _AT_ONCE and now - self.told_at < _SECONDS:
            return None
        untold, self.told, self.told_at = self.untold - 1, self.count, now
        return f" (and {untold} of this kind before)" if untold else ""

    @property
    def untold(self) -> int:
        """The number of errors that were not logged since the last logged error."""
        return self.count - self.told


class ErrorLog:
    """A log of errors that limits the lines for each kind. Safe from any thread."""

    def __init__(
        self,
        tell: Callable[[str, FlowUnitError | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts with an empty log.

        Args:
            tell: Writes a line. It is called with the text and the error, and with None for the
                lines of `close`.
            clock: The time in seconds.
        """
        self._tell = tell
        self._clock = clock
        self._kinds: dict[tuple[str, str, str], ErrorKind] = {}
        self._lock = threading.Lock()

    def add(self, buffer: Buffer) -> None:
        """Logs the error of a buffer, or only counts an error of a frequent kind."""
        error = buffer.error
        assert error is not None  # the caller checked `has_error`
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
        """Logs for each kind the number of errors that were not logged. May be called again."""
        with self._lock:
            left = [kind for kind in self._kinds.values() if kind.untold]
            texts = [f"{kind.untold} more as: {kind.first}" for kind in left]
            for kind in left:
                kind.told = kind.count
        for text in texts:
            self._tell(text, None)

    @property
    def count(self) -> int:
        """The number of errors of all kinds."""
        with self._lock:
            return sum(kind.count for kind in self._kinds.values())

    @property
    def kinds(self) -> list[ErrorKind]:
        """Returns the kinds, the most frequent first."""
        with self._lock:
            return sorted(self._kinds.values(), key=lambda kind: -kind.count)


def item_of(buffer: Buffer) -> str:
    """Returns the name of the file or video frame of a buffer, or ``""`` if unknown.

    The path is relative to the working folder if the file is below that folder.
    """
    path = buffer.get("path")
    if not isinstance(path, str | PurePath):
        return ""
    name = below_here(str(path))
    is_frame = buffer.get("rate_num") is not None
    return f"{name}, frame {buffer.get('index')}" if is_frame else name


def log_error(text: str, error: FlowUnitError | None) -> None:
    """Writes an error that no caller reads into modelflow's log, at DEBUG with its traceback."""
    details = error.__cause__ if error and logger.isEnabledFor(logging.DEBUG) else None
    logger.error("%s", text, exc_info=details)
