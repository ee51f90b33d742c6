"""Where the branches of a condition meet in one input: the order before the condition, restored."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.runtime.clock import Clock
from modelflow.runtime.outbox import Receiver
from modelflow.runtime.segment import Segment, Stream

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.runtime.session import Session

__all__ = ["BRANCH", "ORDER", "Merge"]

# Port numbers of a merge: what the branches bring, and the order in which it goes on.
BRANCH, ORDER = 0, 1


class _Lane:
    """What waits of one session: the order that the condition told, and the buffers by stream."""

    __slots__ = ("ends", "has_errors", "order", "rows", "taken")

    def __init__(self) -> None:
        self.order: deque[Segment] = deque()
        self.taken = 0  # rows of the first segment of the order that have gone on
        self.rows: dict[Stream, dict[int, Buffer]] = {}
        self.ends: dict[Stream, int] = {}  # on how many branches the stream has ended
        self.has_errors = False


class Merge:
    """A receiver in front of an input that several edges feed. Safe from any thread.

    The condition tells it, on the port `ORDER`, the numbers of what it sent to the branches that
    meet here, and the ends of streams. A buffer goes on when all before it have. What waits for
    its turn never blocks a branch. It holds back the condition alone, when ``bound`` buffers a
    session wait here: what they wait for has passed the condition already.
    """

    def __init__(
        self, target: Receiver, port: int, edges: int, bound: int | None, clock: Clock
    ) -> None:
        """Takes what is fed, how many ``edges`` meet here, and ``bound``.

        The bound is None where what has passed the condition may wait for more: where a stream unit
        is on a branch, which may keep buffers until others come.
        """
        self._edges = edges
        self._target = target
        self._port = port
        self._bound = bound
        self._clock = clock
        self._lanes: dict[Session, _Lane] = {}
        self._waiting = 0
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._is_closed = False

    def append(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes in what a branch brings, or the order; passes on what has its turn."""
        with self._lock:
            if self._is_closed:
                return
            due: list[Segment] = []
            for segment in segments:
                session = segment.stream.session
                if session.is_cancelled:
                    self._forget(session)
                    continue
                lane = self._lanes.get(session)
                if lane is None:
                    lane = self._lanes[session] = _Lane()
                if port == ORDER:
                    lane.order.append(segment)
                else:
                    self._take(lane, segment)
                self._advance(session, lane, due)
            if due:
                # Under the lock: what goes on must be appended in its order.
                self._target.append(self._port, due)
                self._room.notify_all()

    def _take(self, lane: _Lane, segment: Segment) -> None:
        stream, positions = segment.stream, segment.positions
        if positions:
            rows = lane.rows.setdefault(stream, {})
            rows.update(zip(positions, segment.columns[0], strict=True))
            self._waiting += len(positions)
            lane.has_errors = lane.has_errors or segment.has_errors
        if segment.is_last:
            lane.ends[stream] = lane.ends.get(stream, 0) + 1

    def _advance(self, session: "Session", lane: _Lane, due: list[Segment]) -> None:
        while lane.order:
            first = lane.order[0]
            stream, positions = first.stream, first.positions
            rows = lane.rows.get(stream, {})
            # What has not come when every branch has ended never will: a unit has dropped it.
            is_ended = lane.ends.get(stream, 0) == self._edges
            start = end = lane.taken
            while end < len(positions) and (positions[end] in rows or is_ended):
                end += 1
            is_whole = end == len(positions) and (is_ended or not first.is_last)
            part = [position for position in positions[start:end] if position in rows]
            if is_whole and first.is_last:
                part += sorted(rows.keys() - set(part))  # more than was told: a unit multiplied
            if part or (is_whole and first.is_last):
                column = [rows.pop(position) for position in part]
                self._waiting -= len(part)
                is_last = is_whole and first.is_last
                due.append(Segment(stream, part, [column], is_last, lane.has_errors))
            if not is_whole:
                lane.taken = end
                return
            lane.order.popleft()
            lane.taken = 0
            if first.is_last:
                lane.rows.pop(stream, None)
                lane.ends.pop(stream, None)
                if stream.depth == 0:
                    del self._lanes[session]

    def wait_for_room(self, port: int, timeout: float | None = None) -> bool:
        """Waits while the input behind is full; a condition also while too much waits here."""
        if port == BRANCH:
            return self._target.wait_for_room(self._port, timeout)
        with self._lock:
            while not self._has_room():
                if not self._clock.wait(self._room, timeout):
                    return False
        return True

    def _has_room(self) -> bool:
        if self._bound is None or self._is_closed:
            return True
        return self._waiting < self._bound * max(1, len(self._lanes))

    def discard(self, session: "Session") -> None:
        """Drops everything of a session."""
        with self._lock:
            self._forget(session)
            self._room.notify_all()

    def close(self) -> None:
        """Wakes those who wait; what waits here is dropped."""
        with self._lock:
            self._is_closed = True
            self._lanes.clear()
            self._waiting = 0
            self._room.notify_all()

    def _forget(self, session: "Session") -> None:
        lane = self._lanes.pop(session, None)
        if lane is not None:
            self._waiting -= sum(map(len, lane.rows.values()))
