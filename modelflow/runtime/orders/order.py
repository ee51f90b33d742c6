"""What an inbox needs of the order in which it hands out rows; the bounds that it keeps."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from modelflow.runtime.session.segment import Batch, Segment

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


@dataclass(frozen=True, slots=True)
class InboxPolicy:
    """How an inbox bounds and cuts."""

    bounds: tuple[int, ...]
    """For each port, the ready rows at which its producers begin to wait."""
    batch_size: int = 1
    """Most rows in a batch."""
    batch_timeout: float = 0.0
    """Longest wait in seconds for a fuller batch, once a row is ready."""
    byte_bound: int | None = None
    """Producers wait too while the ready rows hold that many bytes; None: no bound."""
    unmatched_bounds: tuple[int, ...] = ()
    """For each port, the buffers without a partner at which its producers wait; empty: never. Only
    the graph's inputs have it: a caller may forget the other port."""
    workers: int = 1
    """How many take from this inbox."""
    is_ordered: bool = False
    """Spans get tickets, because several workers take from this inbox."""
    is_measured: bool = False
    """Why batches close is counted."""
    is_one_by_one: bool = False
    """Rows that take long are cut one by one: in a batch they would only wait for one another."""


class Order(Protocol):
    """The rows that wait in an inbox, and which of them come next.

    Not locked: the inbox's lock is held around every call. Rows are *ready* when a worker could be
    given them now; only those make producers wait.
    """

    waiting: object
    """True where `cut` has something to give; always the same object."""
    ready: int
    """Rows that a worker could be given now."""
    ready_bytes: int
    """The bytes of their data, where the policy bounds them."""
    dropped: int
    """Rows that came or were met after their session was cancelled, and are not handed out."""
    has_delays: bool
    """`next_due` has something to do."""
    add_whole: Callable[[Batch], None] | None
    """Takes in a batch as it has left the stage before; None: it has to come in segments."""

    def set_bounds(self, policy: InboxPolicy) -> None:
        """Goes by other bounds from now on."""

    @property
    def is_holding(self) -> bool:
        """Tells whether some session's rows are held back until earlier ones have gone on."""

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes in what has arrived at a port, or the matched rows of all ports."""

    def cut(self, size: int) -> Batch | None:
        """Takes out a batch of at most ``size`` rows; None: nothing was left of what waited."""

    def has_room(self, port: int, session: "Session | None") -> bool:
        """Tells whether a producer of ``port`` may go on with buffers of ``session``."""

    def room(self, port: int) -> int:
        """Returns how many rows of new sessions may come to ``port`` now; none: at most 0."""

    def is_roomy(self) -> bool:
        """Tells whether enough is free that producers who wait should look again."""

    def pause(self, session: "Session") -> None:
        """Hands out nothing of a session until `resume`: its earlier rows are held up."""

    def resume(self, session: "Session") -> None:
        """Ends a `pause`."""

    def next_due(self) -> float | None:
        """Brings in what was delayed until now; returns the seconds until the next such thing."""

    def drain(self) -> None:
        """Delays nothing any more: what was to come later comes now."""

    def end_cycles(self) -> None:
        """Lets nothing go on by itself any more: events that bring events, rows that go round."""

    def drop(self, session: "Session") -> None:
        """Drops everything of a session."""

    def clear(self) -> None:
        """Drops everything."""

    def count_held(self) -> int:
        """Counts the rows and the states of sessions that are kept: 0 when no session is open."""


def first_rows(segment: Segment, size: int, waiting: deque[Segment]) -> Segment:
    """Returns the first ``size`` rows of a longer segment; its other rows go before ``waiting``.

    Half by half: were it cut off in one piece, all of a long one would be copied for every batch.
    """
    while (count := len(segment.positions)) > size:
        segment, rest = segment.split(max(size, count // 2 // size * size))
        waiting.appendleft(rest)
    return segment


def bytes_of(segment: Segment) -> int:
    """Returns how many bytes the data of a segment takes: arrays, bytes, text."""
    return sum(map(_size, (buffer for column in segment.columns for buffer in column)))


def _size(buffer: Any) -> int:
    if isinstance(buffer, list):  # a sub-stream, to be collapsed
        return sum(map(_size, buffer))
    data = buffer.data
    if isinstance(data, np.ndarray):
        return data.nbytes
    return len(data) if isinstance(data, bytes | bytearray | memoryview | str) else 0
