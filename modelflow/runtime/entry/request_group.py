"""The inputs of a graph for the submitter, and groups of whole requests that enter together.

Example: 32 requests of one item arrive for a graph whose input feeds "decode". They become 32
segments, each with its end. All are appended to the queue of "decode" with one lock, and wake one
worker.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from modelflow.buffer import Buffer
from modelflow.runtime.queues.backpressure import Backpressure, check_in_flight, check_inbox
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.segment import Segment

if TYPE_CHECKING:
    from modelflow.runtime.clock import Clock
    from modelflow.runtime.session.in_flight import InFlight
    from modelflow.runtime.session.session import Session
    from modelflow.runtime.stages.outbox import Receiver
    from modelflow.runtime.worker_slot import Handoff


@dataclass(frozen=True, slots=True)
class EntryPort:
    """A graph input, with its receivers and its queue policy."""

    name: str
    """The input's name."""
    route: tuple[tuple["Receiver", int], ...]
    """The receivers, with their port numbers."""
    is_rejecting: bool
    """True if a node behind the input has ``queue_policy=reject``."""
    expected_wait: Callable[[], float | None]
    """Returns the expected wait for room in seconds, or None if unknown."""

    def append(
        self, segments: Sequence[Segment], handoff: "Handoff | None" = None
    ) -> list["Receiver"]:
        """Appends to every receiver; returns the receivers whose `call_due` must be called.

        Args:
            segments: The segments to append.
            handoff: The slots that the calling thread has borrowed, and to which a receiver may
                add a slot. None if a receiver must wake a worker instead.
        """
        if len(self.route) == 1:  # fast path for most graphs
            receiver, target = self.route[0]
            return [receiver] if receiver.append(target, segments, handoff) else []
        # Each receiver gets twins, made before the first append: a worker behind the first receiver
        # may change the buffers immediately.
        others = [[segment.twin() for segment in segments] for _ in self.route[1:]]
        routed = zip(self.route, (segments, *others), strict=True)
        return [
            receiver for (receiver, target), own in routed if receiver.append(target, own, handoff)
        ]


@dataclass(slots=True)
class SessionEntry:
    """A complete session that has not entered the graph yet."""

    session: "Session"
    """The new session, which gets these buffers only."""
    columns: Mapping[str, Sequence[Buffer]]
    """The buffers by input; a missing input gets no buffers."""
    due: float | None
    """The deadline of the results, in the clock's time, or None."""


def count_fitting(
    columns: Iterable[Mapping[str, Sized]],
    ports: Mapping[str, EntryPort],
    in_flight: "InFlight | None",
    clock: "Clock",
    *,
    is_first: bool = False,
) -> tuple[int, Backpressure | None]:
    """Returns how many new sessions may enter now, and the backpressure for the next session.

    A session enters whole if there is room for one row. Sessions behind the first that does not fit
    are not read. So the cost depends only on the number of sessions that enter.

    Args:
        columns: For each session in order, its buffers by input.
        ports: The graph's inputs, by name.
        in_flight: The bound on the rows in the whole graph, or None.
        clock: The clock of every wait.
        is_first: True for sessions of the first class, which enter full queues as well.
    """
    free = math.inf
    if in_flight is not None and in_flight.is_open:
        free = in_flight.bound - in_flight.rows
    rooms = {
        (name, receiver, number): receiver.room(number)
        for name, port in ports.items()
        for receiver, number in port.route
        if isinstance(receiver, Inbox) and not is_first
    }
    count = 0
    for brought in columns:
        if in_flight is not None and free <= 0:
            return count, check_in_flight(in_flight, clock, lambda: False)
        for (_, receiver, number), room in rooms.items():
            if room <= 0:
                return count, check_inbox(receiver, number, None)
        for place in rooms:
            rooms[place] -= len(brought.get(place[0], ()))
        free -= max(map(len, brought.values()), default=0)
        count += 1
    return count, None


def free_rows(ports: Mapping[str, EntryPort], in_flight: "InFlight | None") -> float:
    """Returns how many rows of new sessions each input has room for now; at most 0 if full."""
    free = math.inf
    if in_flight is not None and in_flight.is_open:
        free = in_flight.bound - in_flight.rows
    for port in ports.values():
        for receiver, number in port.route:
            if isinstance(receiver, Inbox):
                free = min(free, receiver.room(number))
    return free


def count_room(
    rows: int, port: EntryPort, in_flight: "InFlight | None", clock: "Clock", *, is_together: bool
) -> tuple[int, Backpressure | None]:
    """Returns how many rows of a request batch may enter, and the backpressure for the next row.

    Args:
        rows: The number of rows of the batch.
        port: The graph's only input.
        in_flight: The bound on the rows in the whole graph, or None.
        clock: The clock of every wait.
        is_together: True if a queue with room for one row takes all rows.
    """
    count: float = rows
    backpressure = None
    if in_flight is not None and in_flight.is_open and in_flight.bound - in_flight.rows < count:
        count = max(0, in_flight.bound - in_flight.rows)
        backpressure = check_in_flight(in_flight, clock, lambda: False)
    for receiver, number in port.route:
        if isinstance(receiver, Inbox) and (room := receiver.room(number)) < count:
            if room > 0 and is_together:
                continue
            count, backpressure = max(0, room), check_inbox(receiver, number, None)
    return int(count), backpressure


def count_entering(sizes: Sequence[int], room: int) -> tuple[int, int]:
    """Returns how many requests enter, and the sum of their rows.

    A request enters whole if there is room for one of its rows. Example: requests of ``[1, 8, 1]``
    rows and ``room=2`` give ``(2, 9)``, the first two requests with nine rows.

    Args:
        sizes: The number of rows of each request.
        room: The number of rows for which there is room.
    """
    ends = [*accumulate(sizes, initial=0)]
    count = bisect_left(ends, room)
    return count, ends[count]


def append_group(
    entries: Sequence[SessionEntry], ports: Mapping[str, EntryPort]
) -> list["Receiver"]:
    """Numbers and appends the buffers of sessions.

    Skips an entry whose session has ended already.

    Returns:
        The receivers whose `call_due` must be called.
    """
    queues: dict[str, list[Segment]] = {name: [] for name in ports}
    for entry in entries:
        columns = entry.columns
        if entry.session.progress.enter_whole(
            {name: len(columns[name]) if name in columns else 0 for name in queues}
        ):
            entry.session.has_deadlines = entry.due is not None
            for name, queue in queues.items():
                queue.append(_segment(entry, columns.get(name, ())))
    return [
        receiver
        for name, queue in queues.items()
        if queue
        for receiver in ports[name].append(queue)
    ]


def request_batch_segment(session: "Session", rows: Sequence[Buffer]) -> Segment:
    """Returns the rows of a request batch as a segment.

    The segment has no end of stream, because the rows of a request batch have no order.
    """
    has_errors = False
    for buffer in rows:
        has_errors = has_errors or buffer.error is not None
        session.has_deadlines = session.has_deadlines or buffer._deadline is not None
    return Segment(session.stream, range(len(rows)), [[*rows]], False, has_errors)


def _segment(entry: SessionEntry, buffers: Sequence[Buffer]) -> Segment:
    """Returns the buffers of an entry for one port, as a segment with the end."""
    has_errors = False
    for buffer in buffers:
        has_errors = has_errors or buffer.error is not None
        buffer._deadline = entry.due
    stream = entry.session.stream
    return Segment(stream, range(len(buffers)), [[*buffers]], True, has_errors)
