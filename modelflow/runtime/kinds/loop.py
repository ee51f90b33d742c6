"""Loop units: a buffer goes round until it leaves by the exit, where the order is restored.

Rows 0 and 1 of a session enter. The unit sends 0 round (as number 0 of the stream that goes round)
and 1 to the exit: 1 waits, because 0 is still inside. When 0 has come back and leaves, 0 and 1 go
on.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError
from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox
from modelflow.runtime.kind import Connection, RunningKind
from modelflow.runtime.kinds.row_call import RowCall
from modelflow.runtime.locks import make_lock
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.segment import Batch, Columns, Segment, Span, Stream
from modelflow.runtime.session import Session

__all__ = ["KIND", "LoopCall", "LoopOutbox", "Looping"]

logger = logging.getLogger("modelflow")

# A buffer that has gone round so often is named in a warning.
WARN_ROUNDS = 10_000
# Port numbers of a loop's inbox: what enters, and what comes back.
ENTRY, RETURN = 0, 1


class LoopCall(RowCall):
    """Calls a loop; a cell is the buffer, or None where the row leaves by the other output.

    A row in error leaves by the exit.
    """

    def _settled(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        counts = dict(zip(self._outputs, map(len, values), strict=True))
        if sum(counts.values()) != 1:
            text = ", ".join(f"{count} values on {name!r}" for name, count in counts.items())
            message = f"gave {text}; a loop gives one, on one output"
            raise ValueError(message)
        return [self._inheriting(given[0], sources) if given else None for given in values]

    def _failed(self, bad: Buffer) -> list[Any]:
        leaving = self.plan.exit_port
        return [bad if port == leaving else None for port in range(len(self._outputs))]


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


class _Inside:
    """What a session has inside the loop."""

    __slots__ = ("entries", "going", "has_gone", "is_ending", "stream")

    entries: deque[_Entry]
    """What has not left yet, in the order in which it entered."""
    stream: Stream
    """The numbering of what goes round: a new number each time."""
    going: dict[int, _Entry]
    """By that number, what is on its way round."""
    has_gone: int
    """How many such numbers were given."""
    is_ending: bool
    """The session's end is on its way round."""

    def __init__(self, session: Session) -> None:
        self.entries = deque()
        self.stream = Stream(session)
        self.going = {}
        self.has_gone = 0
        self.is_ending = False


class _LoopBatch(Batch):
    """A batch that knows the entry of every row."""

    __slots__ = ("entries",)

    def __init__(
        self, spans: list[Span], columns: Columns, has_errors: bool, entries: list[_Entry]
    ) -> None:
        super().__init__(spans, columns, has_errors)
        self.entries = entries


class _Work:
    """True where a loop has something to hand out."""

    __slots__ = ("_order",)

    def __init__(self, order: "Looping") -> None:
        self._order = order

    def __bool__(self) -> bool:
        return self._order.has_work()


class Looping(Fifo):
    """Hands out what comes back before what enters, and bounds what is inside. An `Order`.

    What comes back never makes its producer wait; what enters does, and is let in while fewer rows
    than the queue's bound are inside.
    """

    def __init__(self, policy: InboxPolicy, width: int, node: str, unit: str) -> None:
        """Takes, beside what `Fifo` does, the names of node and unit for messages."""
        super().__init__(policy, width)
        self._node, self._unit = node, unit
        self._returned: deque[Segment] = deque()
        self._sessions: dict[Session, _Inside] = {}
        self._inside = 0
        self._most_inside = max(policy.bounds[ENTRY], policy.batch_size)
        self._is_ending = False
        self.waiting = _Work(self)

    def has_work(self) -> bool:
        """Tells whether something has come back, or may enter."""
        return bool(self._returned) or bool(self._queue and self._inside < self._most_inside)

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Takes in what enters, or what comes back."""
        if port == ENTRY:
            super().add(port, segments)
        else:
            self._returned.extend(segments)

    def has_room(self, port: int, session: Session | None) -> bool:
        """See `Order.has_room`: for what comes back there is always room."""
        return port == RETURN or super().has_room(port, session)

    # -- behind the call ------------------------------------------------------------------------

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
        assert isinstance(batch, _LoopBatch)  # made by `cut`
        leaving: list[Segment] = []
        going: list[Segment] = []
        touched: dict[_Inside, None] = {}
        for row, entry in enumerate(batch.entries):
            inside = self._sessions.get(entry.stream.session)
            if inside is None:
                continue  # cancelled
            touched[inside] = None
            left, again = results[exit_port][row], results[1 - exit_port][row]
            if again is not None and self._is_ending:
                left = self._cut_off(entry)
            if left is not None:
                entry.buffer, entry.is_done = left, True
            elif again is not None:
                going.append(self._sent_round(inside, entry, again, has_errors))
        for span in batch.spans:
            found = self._sessions.get(span.stream.session)
            if found is not None:
                touched[found] = None
                if span.is_last and span.stream is found.stream:
                    found.entries[0].is_done = True  # the end has gone all the way round
        for inside in touched:
            self._release(inside, leaving, going)
        return leaving, going

    def _sent_round(
        self, inside: _Inside, entry: _Entry, buffer: Buffer, has_errors: bool
    ) -> Segment:
        entry.rounds += 1
        if entry.rounds == WARN_ROUNDS:
            logger.warning(
                "node %r: a buffer of session %r has gone round %d times; a loop that never lets "
                "it go ends when its session is cancelled, or by a deadline",
                self._node,
                entry.stream.session.name,
                entry.rounds,
            )
        number = inside.has_gone
        inside.going[number] = entry
        inside.has_gone += 1
        return Segment(inside.stream, range(number, number + 1), [[buffer]], False, has_errors)

    def _cut_off(self, entry: _Entry) -> Buffer:
        message = (
            f"the flow stops, and the buffer was still going round (after {entry.rounds} rounds)"
        )
        error = FlowUnitError.from_exception(
            Cancelled(message), node=self._node, unit=self._unit, session=entry.stream.session.name
        )
        return Buffer.from_error(error)

    def _release(self, inside: _Inside, leaving: list[Segment], going: list[Segment]) -> None:
        entries = inside.entries
        while entries:
            first = entries[0]
            if first.position is None and first.stream.depth == 0 and not inside.is_ending:
                inside.is_ending, first.is_done = True, False
                going.append(Segment(inside.stream, (), [[]], True, False))
            if not first.is_done:
                return
            entries.popleft()
            positions = () if first.position is None else (first.position,)
            self._inside -= len(positions)
            buffers = [first.buffer] if positions else []
            is_bad = first.buffer.error is not None
            leaving.append(Segment(first.stream, positions, [buffers], first.is_last, is_bad))
            if first.is_last and first.stream.depth == 0:
                del self._sessions[first.stream.session]

    # -- out ------------------------------------------------------------------------------------

    def cut(self, size: int) -> Batch | None:
        """See `Order.cut`."""
        spans: list[Span] = []
        entries: list[_Entry] = []
        column: list[Buffer] = []
        has_errors = False
        while self._returned and len(column) < size:
            segment = self._returned.popleft()
            inside = self._sessions.get(segment.stream.session)
            if inside is None:
                continue  # cancelled
            for position, buffer in zip(segment.positions, segment.columns[0], strict=True):
                entry = inside.going.pop(position)
                assert entry.position is not None  # an end does not go round as a row
                spans.append(Span(entry.stream, (entry.position,), False))
                entries.append(entry)
                column.append(buffer)
            if segment.is_last:
                spans.append(Span(segment.stream, (), True))
            has_errors = has_errors or segment.has_errors
        room = min(size - len(column), self._most_inside - self._inside)
        entered = super().cut(room) if room > 0 else None
        if entered is not None:
            spans += entered.spans
            entries += self._enter(entered)
            column += entered.columns[0]
            has_errors = has_errors or entered.has_errors
        return _LoopBatch(spans, [column], has_errors, entries) if spans else None

    def _enter(self, batch: Batch) -> list[_Entry]:
        entries: list[_Entry] = []
        for span in batch.spans:
            session = span.stream.session
            inside = self._sessions.get(session)
            if inside is None:
                inside = self._sessions[session] = _Inside(session)
            new = [_Entry(span.stream, position, False) for position in span.positions]
            entries += new
            inside.entries.extend(new)
            if span.is_last:
                inside.entries.append(_Entry(span.stream, None, True))
        self._inside += len(entries)
        return entries

    # -- control --------------------------------------------------------------------------------

    def end_cycles(self) -> None:
        """Sends nothing round any more: what would go leaves with an error."""
        self._is_ending = True

    def drop(self, session: Session) -> None:
        """See `Order.drop`."""
        super().drop(session)
        self._returned = deque(s for s in self._returned if s.stream.session is not session)

    def _forget(self, session: Session) -> None:
        super()._forget(session)
        inside = self._sessions.pop(session, None)
        if inside is not None:
            self._inside -= sum(entry.position is not None for entry in inside.entries)

    def held(self) -> int:
        """See `Order.held`."""
        return super().held() + len(self._returned) + len(self._sessions) + self._inside

    def clear(self) -> None:
        """See `Order.clear`."""
        super().clear()
        self._returned.clear()
        self._sessions.clear()
        self._inside = 0


class LoopOutbox(Outbox):
    """Sends what goes round and what leaves, each in its order."""

    def __init__(
        self, routes: Sequence[Route], inbox: Inbox, order: Looping, exit_port: int
    ) -> None:
        """Takes, beside the routes, the inbox with its order, and which output is the exit."""
        super().__init__(routes, None, 0)
        self._inbox = inbox
        self._order = order
        self._exit = exit_port
        self._turn = make_lock("outbox")

    def emit(self, batch: Batch, results: Columns, has_errors: bool) -> None:
        """Sends on what has settled; does not wait."""
        with self._turn:
            leaving, going = self._inbox.change(
                lambda: self._order.settle(batch, results, has_errors, self._exit)
            )
            told = self._send([[leaving, going] if self._exit == 0 else [going, leaving]])
        for receiver in (self._inbox, *told):
            receiver.call_due()


def _order(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:  # noqa: ARG001
    return Looping(policy, width, plan.name, plan.unit.spec.name)


def _outbox(plan: StagePlan, to: Connection) -> Outbox:
    assert isinstance(to.order, Looping)  # made by `_order`
    return LoopOutbox(to.routes, to.inbox, to.order, plan.unit.exit_port)


KIND = RunningKind(
    call=LoopCall,
    order=_order,
    outbox=_outbox,
    is_ordered=False,
    is_matching=False,
    is_gathering=False,
)
