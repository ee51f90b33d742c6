"""What a worker has done of late, call by call: for traces, while somebody records.

The worker of "resize" has called its unit for five rows from 10.000 to 10.004, and then waited for
room until 10.010: two slices, which the recorder takes out some tenths of a second later.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import NamedTuple, Protocol

from modelflow.runtime.session.segment import Span
from modelflow.runtime.session.watcher import Watcher

BLOCKED = "blocked"
"""The name of a slice in which a worker has waited for room behind its node."""
# Slices that wait for the recorder, and how many there may be: 2 seconds at 32 us a call.
_MOST = 1 << 16
# What a call is a good deal shorter than `short` by, and how much rarer its turns are.
_TINY, _RARER = 5, 4


class Slice(NamedTuple):
    """A time in which a worker did one thing. Numbers and texts alone: it keeps no rows alive.

    Attributes:
        name: The node that was called, or `BLOCKED`.
        start: When it began, in the clock's seconds.
        end: When it ended.
        rows: How many rows the batch had.
        arrived: When the oldest of them had come; 0: it is not known.
        session: The first one's session.
        sessions: How many sessions they were of.
        errors: How many of them failed in this batch.
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
    """The slices of one worker that nobody has taken yet; it writes, another thread takes.

    Where the recorder does not keep up the oldest are lost, and counted.
    """

    __slots__ = ("_rarer", "_slices", "_taken", "kept", "short", "turns", "waits", "watched")

    turns: Iterator[int]
    """Says of each short call whether its turn has come: 1, else 0."""
    waits: Iterator[int]
    """The same of waits for room."""
    short: float
    """Seconds below which a call, or a wait, is kept only in its turn."""
    kept: int
    """Slices that were kept."""
    watched: Sized
    """Not empty while somebody is told of the calls of some session."""

    def __init__(self, every: int, short: float, watched: Sized = ()) -> None:
        """Makes an empty one.

        Args:
            every: Of short calls, and waits, one of so many is kept; 1: all are. Of calls shorter
                than a fifth of that it is one of four times as many: to write a slice costs more
                than a hundred times what it takes to note none.
            short: What is short, in seconds.
            watched: Not empty while somebody is told of the calls of some session.
        """
        self.kept = self._taken = 0
        self.short = short
        self.turns, self.waits = _turns(every), _turns(every)
        self._rarer = _turns(1 if every == 1 else _RARER)
        self.watched = watched
        self._slices: deque[Slice] = deque(maxlen=_MOST)

    def is_due(self, seconds: float) -> bool:
        """Tells whether a call that is long, or whose turn has come, is kept."""
        return seconds >= self.short / _TINY or next(self._rarer) > 0

    def note(self, one: Slice) -> None:
        """Keeps a slice; for the worker."""
        self.kept += 1
        self._slices.append(one)

    def take(self) -> list[Slice]:
        """Takes out what there is; for the recorder."""
        found = []
        while self._slices:
            found.append(self._slices.popleft())
        self._taken += len(found)
        return found

    @property
    def lost(self) -> int:
        """How many slices nobody will see; exact while the worker rests."""
        return max(0, self.kept - self._taken - len(self._slices))


def _turns(every: int) -> Iterator[int]:
    return itertools.cycle(bytes(every - 1) + b"\1")


def slice_of(  # noqa: PLR0913 - they are its fields
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
    """Who records a flow."""

    def ring(self, track: str) -> TraceBuffer:
        """Returns what the worker ``track`` (its stage's name and its number) writes to."""

    def note_event(self, what: str, details: Mapping[str, str]) -> None:
        """Notes what is of the whole flow, now: ``reload``, ``reconfigure``, ``failed``."""

    def watcher(
        self, session: str, began: float, leave: Callable[[Watcher], None]
    ) -> Watcher | None:
        """Returns who watches a session that is opened now; None: nobody does.

        Args:
            session: Its name.
            began: When it was opened, by the clock.
            leave: Has the watcher that it is given told no more.
        """
