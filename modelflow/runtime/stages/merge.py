"""Where the branches of a condition meet in one input: the order before the condition, restored.

The condition has sent the rows 0 and 3 to branch "face", 1 and 2 to "other", and told the merge
``[0, 1, 2, 3]``. When "other" has brought 1 and 2 they wait; with 0 from "face" the rows 0, 1, 2 go
on.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.session.segment import Segment, Stream
from modelflow.runtime.stages.outbox import Receiver
from modelflow.runtime.waiting import Waiting
from modelflow.runtime.worker_slot import Handoff

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.runtime.session.session import Session


# Port numbers of a merge: what the branches bring, and the order in which it goes on.
BRANCH, ORDER = 0, 1


class _Waits:
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
        self, name: str, target: tuple[Receiver, int], edges: int, bound: int | None, clock: Clock
    ) -> None:
        """Takes the node's name, what is fed there, how many ``edges`` meet here, and
        ``bound``.

        The bound is None where what has passed the condition may wait for more: where a stream unit
        is on a branch, which may keep buffers until others come.
        """
        self._edges = edges
        self._name = name
        self._target, self._port = target
        self._bound = bound
        self._clock = clock
        self._sessions: dict[Session, _Waits] = {}
        self._waiting = 0
        self._lock = make_lock("merge")
        self._room = Waiting(self._lock)
        self._is_closed = False

    append_whole = None

    def append(
        self, port: int, segments: Sequence[Segment], handoff: Handoff | None = None
    ) -> bool:
        """Takes in what a branch brings, or the order; passes on what has its turn.

        Returns:
            True: `call_due` must follow with no lock held.
        """
        with self._lock:
            if self._is_closed:
                return False
            due: list[Segment] = []
            for segment in segments:
                session = segment.stream.session
                if session.is_cancelled:
                    self._forget(session)
                    continue
                waits = self._sessions.get(session)
                if waits is None:
                    waits = self._sessions[session] = _Waits()
                if port == ORDER:
                    waits.order.append(segment)
                else:
                    self._take(waits, segment)
                self._advance(session, waits, due)
            if not due:
                return False
            self._room.wake()
            # Under the lock: what goes on must be appended in its order.
            return self._target.append(self._port, due, handoff)

    def call_due(self) -> None:
        """Calls those who waited for what has happened in the input behind."""
        self._target.call_due()

    def _take(self, waits: _Waits, segment: Segment) -> None:
        stream, positions = segment.stream, segment.positions
        if positions:
            rows = waits.rows.setdefault(stream, {})
            rows.update(zip(positions, segment.columns[0], strict=True))
            self._waiting += len(positions)
            waits.has_errors = waits.has_errors or segment.has_errors
        if segment.is_last:
            waits.ends[stream] = waits.ends.get(stream, 0) + 1

    def _advance(self, session: "Session", waits: _Waits, due: list[Segment]) -> None:
        while waits.order:
            first = waits.order[0]
            stream, positions = first.stream, first.positions
            rows = waits.rows.get(stream, {})
            # What has not come when every branch has ended never will: a unit has dropped it.
            is_ended = waits.ends.get(stream) == self._edges
            start = end = waits.taken
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
                due.append(Segment(stream, part, [column], is_last, waits.has_errors))
            if not is_whole:
                waits.taken = end
                return
            waits.order.popleft()
            waits.taken = 0
            if first.is_last:
                waits.rows.pop(stream, None)
                del waits.ends[stream]
                if stream.depth == 0:
                    del self._sessions[session]

    def wait_for_room(self, port: int) -> None:
        """Waits while the input behind is full; a condition also while too much waits here."""
        if port == BRANCH:
            self._target.wait_for_room(self._port)
            return
        with self._lock:
            while not self._has_room():
                self._room.wait(self._clock, None)

    def find_backpressure(self, port: int) -> str | None:
        """Returns what a producer of ``port`` waits for now, or None."""
        if port == BRANCH:
            return self._target.find_backpressure(self._port)
        return None if self._has_room() else f"the branches that meet before {self._name!r}"

    def _has_room(self) -> bool:
        if self._bound is None or self._is_closed:
            return True
        return self._waiting < self._bound * max(1, len(self._sessions))

    def count_held(self) -> int:
        """Returns how many sessions have something that waits here."""
        return len(self._sessions)

    def discard(self, session: "Session") -> None:
        """Drops everything of a session."""
        with self._lock:
            self._forget(session)
            self._room.wake()

    def close(self) -> None:
        """Wakes those who wait; what waits here is dropped."""
        with self._lock:
            self._is_closed = True
            self._sessions.clear()
            self._room.wake()

    def _forget(self, session: "Session") -> None:
        waits = self._sessions.pop(session, None)
        if waits is not None:
            self._waiting -= sum(map(len, waits.rows.values()))
