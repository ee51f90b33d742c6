"""The interface of an inbox's order, and the policy with the bounds of an inbox."""

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
    """The bounds of an inbox, and the rules for its batches."""

    bounds: tuple[int, ...]
    """For each port, the number of ready rows at which its producers must wait."""
    batch_size: int = 1
    """The most rows of a batch."""
    batch_timeout: float = 0.0
    """The longest wait in seconds for a fuller batch, once a row is ready."""
    byte_bound: int | None = None
    """The number of bytes of ready rows at which producers must wait, or None."""
    unmatched_bounds: tuple[int, ...] = ()
    """For each port, the number of buffers without a partner at which its producers must wait.

    Only graph inputs have such a bound, because a caller may forget the other input. Otherwise
    empty.
    """
    workers: int = 1
    """The number of workers that take from the inbox."""
    is_ordered: bool = False
    """True if spans get tickets, because several workers take from the inbox."""
    is_measured: bool = False
    """True if the inbox counts why batches close."""
    is_one_by_one: bool = False
    """True if each slow row becomes a batch of its own, because a larger batch saves no time."""


class Order(Protocol):
    """The waiting rows of an inbox, and the decision which rows come next.

    The inbox holds its lock around every call. Rows are *ready* if a worker could take them now.
    Only ready rows make producers wait.
    """

    waiting: object
    """An object that is true while `cut` has rows to give; always the same object."""
    ready: int
    """The number of rows that a worker could take now."""
    ready_bytes: int
    """The size of the ready rows' data, if the policy bounds the bytes."""
    dropped: int
    """The number of rows that were dropped because their session was cancelled."""
    has_delays: bool
    """True if events are delayed, and `next_due` must be called."""
    add_whole: Callable[[Batch], None] | None
    """Adds a whole batch of the stage before. None if batches must be split into segments."""

    def set_bounds(self, policy: InboxPolicy) -> None:
        """Applies other bounds from now on."""

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns counters for `NodeStats.figures`."""

    @property
    def is_holding(self) -> bool:
        """Returns whether rows of a paused session wait for earlier rows in the outbox."""

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Adds segments of a port, or matched rows of all ports."""

    def cut(self, size: int) -> Batch | None:
        """Removes and returns a batch of at most ``size`` rows, or None if all were dropped."""

    def has_room(self, port: int, session: "Session | None") -> bool:
        """Returns whether a producer of ``port`` may go on with buffers of ``session``.

        Rows of the first class do not count for a ``session`` of the second class.
        """

    def room(self, port: int) -> int:
        """Returns how many rows of new sessions ``port`` has room for; at most 0 if full."""

    def is_roomy(self) -> bool:
        """Returns whether enough room is free to wake the waiting producers."""

    def pause(self, session: "Session") -> None:
        """Gives out no rows of a session until `resume`, because too many results wait."""

    def resume(self, session: "Session") -> None:
        """Ends a `pause`."""

    def next_due(self) -> float | None:
        """Adds the delayed events that are due; returns the seconds until the next event."""

    def drain(self) -> None:
        """Makes delayed events due now, and delays no event from now on."""

    def end_cycles(self) -> None:
        """Stops cycles: events that cause further events, and rows that go round a loop."""

    def drop(self, session: "Session") -> None:
        """Drops the rows and the state of a session."""

    def clear(self) -> None:
        """Drops all rows and states."""

    def count_held(self) -> int:
        """Returns how many rows and session states are stored; 0 if no session is open."""


def first_rows(
    segment: Segment, size: int, waiting: deque[Segment] | deque[Segment | Batch]
) -> Segment:
    """Returns the first ``size`` rows of a longer segment; the other rows go before ``waiting``.

    Splits the segment in halves. Cutting off ``size`` rows directly would copy all other rows of a
    long segment for every batch.
    """
    while (count := len(segment.positions)) > size:
        segment, rest = segment.split(max(size, count // 2 // size * size))
        waiting.appendleft(rest)
    return segment


def bytes_of(segment: Segment) -> int:
    """Returns the size in bytes of a segment's data: arrays, bytes, texts."""
    return sum(map(_size, (buffer for column in segment.columns for buffer in column)))


def _size(buffer: Any) -> int:
    if isinstance(buffer, list):  # a cell of a collapse is a list
        return sum(map(_size, buffer))
    data = buffer.data
    if isinstance(data, np.ndarray):
        return data.nbytes
    return len(data) if isinstance(data, bytes | bytearray | memoryview | str) else 0
