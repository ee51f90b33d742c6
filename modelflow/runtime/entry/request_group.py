"""The inputs of a graph as the submitter sees them, and whole requests that enter together.

Thirty-two requests of one item, for a graph whose input feeds "decode": thirty-two segments, each
with its end, are appended to that queue under one lock, and one worker is woken.
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
    """One graph input: what it feeds, and whether it refuses instead of waiting."""

    name: str
    """The input's name."""
    route: tuple[tuple["Receiver", int], ...]
    """The receivers, with their port numbers."""
    is_rejecting: bool
    """A node that it feeds says ``queue_policy=reject``."""
    expected_wait: Callable[[], float | None]
    """Gives the expected wait in seconds until there is room, or None."""

    def append(
        self, segments: Sequence[Segment], handoff: "Handoff | None" = None
    ) -> list["Receiver"]:
        """Appends to every receiver; returns those that `call_due` must be called of.

        Args:
            segments: What has come.
            handoff: What the calling thread may go on with itself; None: others must be woken.
        """
        if len(self.route) == 1:  # every row of most graphs passes here
            receiver, target = self.route[0]
            return [receiver] if receiver.append(target, segments, handoff) else []
        # Each has its own, made before the first is appended: who reads it may change it at once.
        others = [[segment.twin() for segment in segments] for _ in self.route[1:]]
        routed = zip(self.route, (segments, *others), strict=True)
        return [
            receiver for (receiver, target), own in routed if receiver.append(target, own, handoff)
        ]


@dataclass(slots=True)
class SessionEntry:
    """All of one session, not yet in the graph."""

    session: "Session"
    """Nothing was sent to it, and nothing else will be."""
    columns: Mapping[str, Sequence[Buffer]]
    """The buffers, by input; an input that is missing gets none."""
    due: float | None
    """Until when somebody waits for the results, by the clock; None: for ever."""


def count_fitting(
    columns: Iterable[Mapping[str, Sized]],
    ports: Mapping[str, EntryPort],
    in_flight: "InFlight | None",
    clock: "Clock",
) -> tuple[int, Backpressure | None]:
    """Returns how many new sessions there is room for now, and what is in the way of the next one.

    A session enters whole where there is room for one row. Those behind the first that does not fit
    are not looked at: the cost is that of those that enter, however many wait.

    Args:
        columns: What each session brings to each input, in order.
        ports: The graph's inputs, by name.
        in_flight: The bound on the rows in the whole graph; None: there is none.
        clock: What every wait goes by.
    """
    free = math.inf
    if in_flight is not None and in_flight.is_open:
        free = in_flight.bound - in_flight.rows
    rooms = {
        (name, receiver, number): receiver.room(number)
        for name, port in ports.items()
        for receiver, number in port.route
        if isinstance(receiver, Inbox)
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
    """Returns how many rows of new sessions each input has room for now; none: at most 0."""
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
    """Returns how many rows of a request batch there is room for, and what the next one waits for.

    Args:
        rows: How many want to go in.
        port: The graph's only input.
        in_flight: The bound on the rows in the whole graph; None: there is none.
        clock: What every wait goes by.
        is_together: A queue that has room for one row takes all of them.
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
    """Returns how many requests of so many rows each enter where there is room, and their rows.

    ``[1, 8, 1]`` with room for two rows of the ten: the first two requests, with nine rows.
    """
    ends = [*accumulate(sizes, initial=0)]
    count = bisect_left(ends, room)
    return count, ends[count]


def append_group(
    entries: Sequence[SessionEntry], ports: Mapping[str, EntryPort]
) -> list["Receiver"]:
    """Gives every buffer its position and appends all; returns who must `call_due`.

    Those whose session is over already are left out.
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
    """Returns the rows of a request batch as what enters; it has no end, since its rows have
    no order.
    """
    has_errors = False
    for buffer in rows:
        has_errors = has_errors or buffer.error is not None
        session.has_deadlines = session.has_deadlines or buffer._deadline is not None
    return Segment(session.stream, range(len(rows)), [[*rows]], False, has_errors)


def _segment(entry: SessionEntry, buffers: Sequence[Buffer]) -> Segment:
    """Returns all that an entry brings to a port."""
    has_errors = False
    for buffer in buffers:
        has_errors = has_errors or buffer.error is not None
        buffer._deadline = entry.due
    stream = entry.session.stream
    return Segment(stream, range(len(buffers)), [[*buffers]], True, has_errors)
