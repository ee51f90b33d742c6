"""The latest calls of a worker, for traces, while a recording runs.

Example: the worker of "resize" has called its unit for five rows from 10.000 to 10.004, and then
waited for room until 10.010. This makes two slices, which the recorder takes some tenths of a
second later.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import NamedTuple, Protocol

from modelflow.runtime.session.segment import Span
from modelflow.runtime.session.watcher import Watcher

BLOCKED = "blocked"
"""The name of a slice in which a worker waited for room after its node."""
# The most slices that wait for the recorder: 2 seconds of calls of 32 us.
_MOST = 1 << 16
# Calls shorter than a fifth of `short` are kept four times more rarely.
_TINY, _RARER = 5, 4


class Slice(NamedTuple):
    """A period of a worker: a call, or a wait for room.

    Has only numbers and texts, because references would keep rows alive.

    Attributes:
        name: The node that was called, or `BLOCKED`.
        start: The start time, in seconds of the clock.
        end: The end time.
        rows: The number of rows of the batch.
        arrived: The arrival time of the oldest row, or 0 if not known.
        session: The session of the first row.
        sessions: The number of sessions of the rows.
        errors: The number of rows that failed in this batch.
    """

    name: str
    start: float
    end: float
    rows: int = 0
    arrived: float = 0.0
    session: str = ""
    sessions: int = 0
    errors: int = 0


class TraceBuffer:
    """The slices of a worker that the recorder has not taken yet.

    The worker writes, and the thread of the recorder takes. Threads that open sessions of a source
    also write to the buffer of its worker. If the recorder is too slow, the oldest slices are lost
    and counted.
    """

    __slots__ = ("_lock", "_rarer", "_slices", "lost", "short", "turns", "waits", "watched")

    turns: Iterator[int]
    """Yields 1 for a short call that is kept, and 0 for other short calls."""
    waits: Iterator[int]
    """Yields 1 for a short wait for room that is kept, and 0 for other short waits."""
    short: float
    """The length in seconds below which only some calls and waits are kept."""
    lost: int
    """The number of slices that were lost."""
    watched: Sized
    """Not empty while a session has a watcher."""

    def __init__(self, every: int, short: float, watched: Sized = ()) -> None:
        """Makes an empty buffer.

        Args:
            every: The sampling interval of short calls and waits: 16 keeps one of 16, and 1 keeps
                all. Calls below a fifth of ``short`` are kept four times more rarely. Writing a
                slice costs over a hundred times more than skipping a call.
            short: The limit below which a call or wait is short, in seconds.
            watched: Not empty while a session has a watcher.
        """
        self.lost = 0
        self.short = short
        self.turns, self.waits = _turns(every), _turns(every)
        self._rarer = _turns(1 if every == 1 else _RARER)
        self.watched = watched
        self._slices: deque[Slice] = deque(maxlen=_MOST)
        self._lock = threading.Lock()

    def is_due(self, seconds: float) -> bool:
        """Returns whether to keep a call that `turns` has selected or that is not short."""
        return seconds >= self.short / _TINY or next(self._rarer) > 0

    def note(self, one: Slice) -> None:
        """Adds a slice; called by the worker."""
        with self._lock:
            self.lost += len(self._slices) == _MOST
            self._slices.append(one)

    def take(self) -> list[Slice]:
        """Removes and returns the present slices; called by the recorder."""
        with self._lock:
            found = list(self._slices)
            self._slices.clear()
        return found


def _turns(every: int) -> Iterator[int]:
    return itertools.cycle(bytes(every - 1) + b"\1")


def slice_of(  # noqa: PLR0913 - the fields of a slice
    node: str,
    start: float,
    end: float,
    rows: int,
    arrived: float,
    spans: Sequence[Span],
    errors: int,
) -> Slice:
    """Returns the slice of a call; see `Slice`."""
    session = spans[0].stream.session.name if spans else ""
    return Slice(node, start, end, rows, arrived, session, len(spans), errors)


class Recorder(Protocol):
    """A recorder of the calls of a flow."""

    def ring(self, track: str) -> TraceBuffer:
        """Returns the trace buffer for the worker ``track``, named by its stage and its number."""

    def note_event(self, what: str, details: Mapping[str, str]) -> None:
        """Notes an event of the whole flow: ``reload``, ``reconfigure``, ``failed``."""

    def watcher(
        self, session: str, began: float, leave: Callable[[Watcher], None]
    ) -> Watcher | None:
        """Returns the watcher of a new session, or None for no watcher.

        Args:
            session: The name of the session.
            began: The time when the session was opened, by the clock.
            leave: Removes the given watcher from the session.
        """
