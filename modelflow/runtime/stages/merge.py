"""The merge of a condition's branches in one input, in the order of rows before the condition.

Example: a condition sends the rows 0 and 3 of a stream to branch "face", and 1 and 2 to branch
"other". Both branches end in the input of "join". The condition also sends the order to the merge::

    call                       sent to "join"   rows that wait
    append(ORDER, 0 1 2 3)     none             none
    append(BRANCH, 1 2)        none             1 2     "other" was faster than "face"
    append(BRANCH, 0)          0 1 2            none
    append(BRANCH, 3)          3                none
    append(ORDER, end)         none             none
    append(BRANCH, end)        none             none    the end of "face"
    append(BRANCH, end)        end              none    the end of "other", the last branch

If a unit in "other" drops row 1, row 2 waits until both branches have ended. Then 2 goes on.
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


# Port numbers of a merge: the rows from the branches, and the order of these rows.
BRANCH, ORDER = 0, 1


class _Waits:
    """The waiting data of one session: the order from the condition, and the buffers by stream."""

    __slots__ = ("ends", "has_errors", "order", "rows", "taken")

    def __init__(self) -> None:
        self.order: deque[Segment] = deque()
        self.taken = 0  # how many rows of the order's first segment were sent on
        self.rows: dict[Stream, dict[int, Buffer]] = {}
        self.ends: dict[Stream, int] = {}  # the number of branches on which the stream has ended
        self.has_errors = False


class Merge:
    """The receiver in front of an input that several edges feed. Safe from any thread.

    On the port `ORDER`, the condition sends the positions of the rows that it sent to the branches,
    and the ends of streams. The merge sends a row on when all rows before it were sent.

    Waiting rows never make a branch wait. They make only the condition wait, if ``bound`` rows per
    session wait here. This cannot block the graph: the missing row has already passed the
    condition, and is on a branch.
    """

    def __init__(
        self, name: str, target: tuple[Receiver, int], edges: int, bound: int | None, clock: Clock
    ) -> None:
        """Creates an empty merge.

        Args:
            name: The name of the node behind the merge, for messages.
            target: The receiver behind the merge, and its port.
            edges: The number of edges that meet here.
            bound: The number of waiting rows per session that makes the condition wait. None if a
                branch has a stream unit: it may keep a row until the condition sends further rows.
            clock: The clock of the waits.
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
        """Adds rows of a branch, or of the order, and sends on all rows whose turn has come.

        Returns:
            True if the caller must call `call_due` once it holds no lock.
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
            # Under the lock: otherwise two threads could append their rows in the wrong order.
            return self._target.append(self._port, due, handoff)

    def call_due(self) -> None:
        """Calls the callbacks that are due in the receiver behind the merge."""
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
            # When every branch has ended, a missing row never arrives: a unit has dropped it.
            is_ended = waits.ends.get(stream) == self._edges
            start = end = waits.taken
            while end < len(positions) and (positions[end] in rows or is_ended):
                end += 1
            is_whole = end == len(positions) and (is_ended or not first.is_last)
            part = [position for position in positions[start:end] if position in rows]
            if is_whole and first.is_last:
                part += sorted(rows.keys() - set(part))  # not in the order: added by a unit
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
        """Waits while the input behind is full; the condition, while too many rows wait here."""
        if port == BRANCH:
            self._target.wait_for_room(self._port)
            return
        with self._lock:
            while not self._has_room():
                self._room.wait(self._clock, None)

    def find_backpressure(self, port: int) -> str | None:
        """Returns a text for the place for which a producer of ``port`` waits now, or None."""
        if port == BRANCH:
            return self._target.find_backpressure(self._port)
        return None if self._has_room() else f"the branches that meet before {self._name!r}"

    def _has_room(self) -> bool:
        if self._bound is None or self._is_closed:
            return True
        return self._waiting < self._bound * max(1, len(self._sessions))

    def count_held(self) -> int:
        """Returns how many sessions have waiting data here."""
        return len(self._sessions)

    def discard(self, session: "Session") -> None:
        """Drops the waiting data of a session."""
        with self._lock:
            self._forget(session)
            self._room.wake()

    def close(self) -> None:
        """Drops all waiting data, and wakes the waiting threads."""
        with self._lock:
            self._is_closed = True
            self._sessions.clear()
            self._room.wake()

    def _forget(self, session: "Session") -> None:
        waits = self._sessions.pop(session, None)
        if waits is not None:
            self._waiting -= sum(map(len, waits.rows.values()))
