"""Loop units: a buffer goes round until it leaves by the exit, where the order is restored."""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox, InboxPolicy
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.segment import Batch, Columns, Segment, Slice, Stream

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["LoopCall", "LoopInbox", "LoopOutbox"]

logger = logging.getLogger("modelflow")

# A buffer that has gone round so often is named in a warning.
WARN_ROUNDS = 10_000
# Port numbers of a loop's inbox: what enters, and what comes back.
ENTRY, RETURN = 0, 1


class LoopCall(RowCall):
    """Calls a loop; a cell is the buffer, or None where the row leaves by the other output.

    A row in error leaves by the exit.

    Attributes:
        exit_port: Which output is the exit.
    """

    exit_port = 0

    def _settled(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        counts = dict(zip(self._outputs, map(len, values), strict=True))
        if sum(counts.values()) != 1:
            text = ", ".join(f"{count} values on {name!r}" for name, count in counts.items())
            message = f"gave {text}; a loop gives one, on one output"
            raise ValueError(message)
        return [self._inheriting(given[0], sources) if given else None for given in values]

    def _failed(self, bad: Buffer) -> list[Any]:
        return [bad if port == self.exit_port else None for port in range(len(self._outputs))]


class _Entry:
    """A row inside the loop, or an end that waits for the rows before it."""

    __slots__ = ("buffer", "is_done", "is_last", "position", "rounds", "stream")

    def __init__(self, stream: Stream, position: int | None, is_last: bool) -> None:
        self.stream = stream
        self.position = position  # None: an end alone
        self.is_last = is_last
        self.is_done = position is None
        self.rounds = 0
        self.buffer = Buffer()


class _Lane:
    """A session inside the loop: what entered, in order, and what is on its way round.

    Attributes:
        entries: What has not left yet, in the order in which it entered.
        stream: The numbering of what goes round: a new number each time.
        going: Number on the way round -> entry.
        has_gone: How many numbers were given.
    """

    __slots__ = ("entries", "going", "has_gone", "is_ending", "stream")

    def __init__(self, session: "Session") -> None:
        self.entries: deque[_Entry] = deque()
        self.stream = Stream(session)
        self.going: dict[int, _Entry] = {}
        self.has_gone = 0
        self.is_ending = False


class _LoopBatch(Batch):
    """A batch that knows the entry of every row."""

    __slots__ = ("entries",)

    def __init__(
        self, slices: list[Slice], columns: Columns, has_errors: bool, entries: list[_Entry]
    ) -> None:
        super().__init__(slices, columns, has_errors)
        self.entries = entries


class LoopInbox(Inbox):
    """Takes what comes back before what enters, and bounds what is inside.

    What comes back never makes its producer wait; what enters does, and is let in while fewer rows
    than the queue's bound are inside.
    """

    def __init__(self, node: str, ports: Sequence[str], policy: InboxPolicy, clock: Clock) -> None:
        super().__init__(node, ports, policy, clock)
        self._returned: deque[Segment] = deque()
        self._lanes: dict[Session, _Lane] = {}
        self._inside = 0
        self._bound = max(policy.bounds[ENTRY], policy.batch_size)

    def append(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes segments in, at the entry or from the way round; never waits."""
        if port == ENTRY:
            super().append(port, segments)
            return
        with self._lock:
            if not self._is_closed:
                self._returned.extend(segments)
                if self._idle:
                    self._wake_worker()

    def wait_for_room(
        self, port: int, timeout: float | None = None, session: "Session | None" = None
    ) -> bool:
        """Waits at the entry while it is full."""
        return port == RETURN or super().wait_for_room(port, timeout, session)

    def take(self) -> Batch | None:
        """Waits for a batch; None once the inbox is closed."""
        with self._lock:
            while not self._is_closed:
                batch = self._next()
                if batch is not None:
                    if self._idle and self._has_work():
                        self._work.notify()
                    return batch
                self._rest()
            return None

    def take_nowait(self) -> Batch | None:
        """Returns a batch of what is ready, or None."""
        with self._lock:
            return self._next()

    def _next(self) -> Batch | None:
        while self._has_work():
            batch = self._cut(self.policy.batch_size)
            if batch.slices:
                return batch
        return None

    def settle(
        self,
        batch: Batch,
        results: Sequence[Sequence[Buffer | None]],
        has_errors: bool,
        exit_port: int,
    ) -> tuple[list[Segment], list[Segment]]:
        """Sorts the rows of a batch into those that go round and those that leave.

        Called under the outbox's lock, so that what it returns is sent in this order.

        Returns:
            What leaves by the exit, and what goes round.
        """
        assert isinstance(batch, _LoopBatch)
        leaving: list[Segment] = []
        going: list[Segment] = []
        with self._lock:
            touched: dict[_Lane, None] = {}
            for row, entry in enumerate(batch.entries):
                lane = self._lanes.get(entry.stream.session)
                if lane is None:
                    continue  # cancelled
                touched[lane] = None
                left, again = results[exit_port][row], results[1 - exit_port][row]
                if left is not None:
                    entry.buffer, entry.is_done = left, True
                elif again is not None:
                    self._count_round(entry)
                    lane.going[lane.has_gone] = entry
                    positions = range(lane.has_gone, lane.has_gone + 1)
                    going.append(Segment(lane.stream, positions, [[again]], False, has_errors))
                    lane.has_gone += 1
            for part in batch.slices:
                found = self._lanes.get(part.stream.session)
                if found is not None:
                    touched[found] = None
                    if part.is_last and part.stream is found.stream:
                        found.entries[0].is_done = True  # the end has gone all the way round
            for lane in touched:
                self._release(lane, leaving, going)
            if self._idle and self._has_work():
                self._work.notify_all()
        return leaving, going

    def _count_round(self, entry: _Entry) -> None:
        entry.rounds += 1
        if entry.rounds == WARN_ROUNDS:
            logger.warning(
                "node %r: a buffer of session %r has gone round %d times; a loop that never lets "
                "it go ends when its session is cancelled, or by a deadline",
                self.node,
                entry.stream.session.name,
                entry.rounds,
            )

    def _release(self, lane: _Lane, leaving: list[Segment], going: list[Segment]) -> None:
        entries = lane.entries
        while entries:
            first = entries[0]
            if first.position is None and first.stream.depth == 0 and not lane.is_ending:
                lane.is_ending, first.is_done = True, False
                going.append(Segment(lane.stream, (), [[]], True, False))
            if not first.is_done:
                return
            entries.popleft()
            positions = () if first.position is None else (first.position,)
            self._inside -= len(positions)
            buffers = [first.buffer] if positions else []
            is_bad = first.buffer.error is not None
            leaving.append(Segment(first.stream, positions, [buffers], first.is_last, is_bad))
            if first.is_last and first.stream.depth == 0:
                del self._lanes[first.stream.session]

    def _has_work(self) -> bool:
        return bool(self._returned) or bool(self._queue and self._inside < self._bound)

    def _cut(self, size: int) -> Batch:
        slices: list[Slice] = []
        entries: list[_Entry] = []
        column: list[Buffer] = []
        has_errors = False
        while self._returned and len(column) < size:
            segment = self._returned.popleft()
            lane = self._lanes.get(segment.stream.session)
            if lane is None:
                continue  # cancelled
            for position, buffer in zip(segment.positions, segment.columns[0], strict=True):
                entry = lane.going.pop(position)
                assert entry.position is not None  # an end does not go round as a row
                slices.append(Slice(entry.stream, (entry.position,), False, None))
                entries.append(entry)
                column.append(buffer)
            if segment.is_last:
                slices.append(Slice(segment.stream, (), True, None))
            has_errors = has_errors or segment.has_errors
        room = self._bound - self._inside
        if self._queue and len(column) < size and room > 0:
            entered = self._entered(min(size - len(column), room))
            slices += entered.slices
            entries += entered.entries
            column += entered.columns[0]
            has_errors = has_errors or entered.has_errors
        return _LoopBatch(slices, [column], has_errors, entries)

    def _entered(self, most: int) -> _LoopBatch:
        batch = super()._cut(most)
        entries: list[_Entry] = []
        for part in batch.slices:
            session = part.stream.session
            lane = self._lanes.get(session)
            if lane is None:
                lane = self._lanes[session] = _Lane(session)
            new = [_Entry(part.stream, position, False) for position in part.positions]
            entries += new
            lane.entries.extend(new)
            if part.is_last:
                lane.entries.append(_Entry(part.stream, None, True))
        self._inside += len(entries)
        return _LoopBatch(batch.slices, batch.columns, batch.has_errors, entries)

    def _drop(self, session: "Session") -> None:
        super()._drop(session)
        self._returned = deque(s for s in self._returned if s.stream.session is not session)
        if self._has_work():  # there may be room inside for what waits at the entry
            self._work.notify_all()

    def _forget(self, session: "Session") -> None:
        super()._forget(session)
        lane = self._lanes.pop(session, None)
        if lane is not None:
            self._inside -= sum(entry.position is not None for entry in lane.entries)

    def close(self) -> None:
        """Wakes everyone; what is queued or goes round is dropped."""
        with self._lock:
            self._returned.clear()
            self._lanes.clear()
        super().close()


class LoopOutbox(Outbox):
    """Sends what goes round and what leaves, each in its order."""

    def __init__(self, routes: Sequence[Route], inbox: LoopInbox, exit_port: int) -> None:
        """Takes, beside the routes, the loop's inbox, and which output is the exit."""
        super().__init__(routes, is_ordered=False, limit=0)
        self._inbox = inbox
        self._exit = exit_port
        self._turn = threading.Lock()

    def emit(self, batch: Batch, results: Columns, has_errors: bool) -> None:
        """Sends on what has settled; does not wait."""
        with self._turn:
            leaving, going = self._inbox.settle(batch, results, has_errors, self._exit)
            piece = [leaving, going] if self._exit == 0 else [going, leaving]
            self._send([piece])
