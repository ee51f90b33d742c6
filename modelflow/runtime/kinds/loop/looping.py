"""The order of a loop: which rows go round, which leave, and which come next."""

import logging
from collections import deque
from collections.abc import Sequence

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError
from modelflow.runtime.kinds.loop.inside import Entry, LoopBatch, LoopContents
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.session.segment import Batch, Segment, Span
from modelflow.runtime.session.session import Session

logger = logging.getLogger("modelflow")

# The number of rounds after which a warning names a buffer.
WARN_ROUNDS = 10_000
# Port numbers of a loop's inbox: rows that enter, and rows that return.
ENTRY, RETURN = 0, 1


class _Work:
    """An object that is true while a loop can give out rows."""

    __slots__ = ("_order",)

    def __init__(self, order: "LoopOrder") -> None:
        self._order = order

    def __bool__(self) -> bool:
        return self._order.has_work()


class LoopOrder(Fifo):
    """The `Order` of a loop: gives out returning rows first, and bounds the number of rows inside.

    Returning rows never make a producer wait, because a loop that waits for itself would never go
    on. Entering rows do. They enter while fewer rows than the queue's bound are inside.
    """

    def __init__(self, policy: InboxPolicy, width: int, node: str, unit: str) -> None:
        """Creates an empty order.

        Args:
            policy: The bounds.
            width: The number of ports of a row.
            node: The node's name, for messages.
            unit: The unit's name, for messages.
        """
        super().__init__(policy, width)
        self._node, self._unit = node, unit
        self._returned: deque[Segment] = deque()
        self._sessions: dict[Session, LoopContents] = {}
        self._inside = 0
        self._most_inside = max(policy.bounds[ENTRY], policy.batch_size)
        self._is_ending = False
        self.waiting = _Work(self)

    def set_bounds(self, policy: InboxPolicy) -> None:
        """See `Order.set_bounds`."""
        super().set_bounds(policy)
        self._most_inside = max(policy.bounds[ENTRY], policy.batch_size)

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns ``loop``: the rows ``inside`` now, and the ``bound`` of their number."""
        return {"loop": {"inside": self._inside, "bound": self._most_inside}}

    def has_work(self) -> bool:
        """Returns whether rows have returned, or may enter."""
        return bool(self._returned) or bool(self._queue and self._inside < self._most_inside)

    def add(self, port: int, segments: Sequence[Segment]) -> None:
        """Adds rows that enter, or rows that return."""
        if port == ENTRY:
            super().add(port, segments)
        else:
            self._returned.extend(segments)

    def has_room(self, port: int, session: Session | None) -> bool:
        """See `Order.has_room`. The port of returning rows always has room."""
        return port == RETURN or super().has_room(port, session)

    # -- after a call ---------------------------------------------------------------------------

    def settle(
        self,
        batch: Batch,
        results: Sequence[Sequence[Buffer | None]],
        has_errors: bool,
        exit_port: int,
    ) -> tuple[list[Segment], list[Segment]]:
        """Splits the results of a batch into rows that go round and rows that leave.

        The caller holds the outbox's lock. Otherwise two threads could send their segments in the
        wrong order.

        Returns:
            The segments for the exit, and the segments that go round.
        """
        assert isinstance(batch, LoopBatch)  # made by `cut`
        leaving: list[Segment] = []
        going: list[Segment] = []
        touched: dict[LoopContents, None] = {}
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
                going.append(self._send_round(inside, entry, again, has_errors))
        for span in batch.spans:
            found = self._sessions.get(span.stream.session)
            if found is not None:
                touched[found] = None
                if span.is_last and span.stream is found.stream:
                    found.entries[0].is_done = True  # the end has returned
        for inside in touched:
            self._release(inside, leaving, going)
        return leaving, going

    def _send_round(
        self, inside: LoopContents, entry: Entry, buffer: Buffer, has_errors: bool
    ) -> Segment:
        entry.rounds += 1
        if entry.rounds == WARN_ROUNDS:
            logger.warning(
                "node %r: a buffer of session %r has gone round %d times; if it never leaves the "
                "loop, cancel the session or set a deadline",
                self._node,
                entry.stream.session.name,
                entry.rounds,
            )
        number = inside.has_gone
        inside.going[number] = entry
        inside.has_gone += 1
        return Segment(inside.stream, range(number, number + 1), [[buffer]], False, has_errors)

    def _cut_off(self, entry: Entry) -> Buffer:
        message = (
            f"the flow stops, and the buffer was still going round (after {entry.rounds} rounds)"
        )
        error = FlowUnitError.from_exception(
            Cancelled(message), node=self._node, unit=self._unit, session=entry.stream.session.name
        )
        return Buffer.from_error(error)

    def _release(self, inside: LoopContents, leaving: list[Segment], going: list[Segment]) -> None:
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
        entries: list[Entry] = []
        column: list[Buffer] = []
        has_errors = False
        while self._returned and len(column) < size:
            segment = self._returned.popleft()
            inside = self._sessions.get(segment.stream.session)
            if inside is None:
                continue  # cancelled
            for position, buffer in zip(segment.positions, segment.columns[0], strict=True):
                entry = inside.going.pop(position)
                assert entry.position is not None  # an end returns as ``is_last``, not as a row
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
        return LoopBatch(spans, [column], has_errors, entries) if spans else None

    def _enter(self, batch: Batch) -> list[Entry]:
        entries: list[Entry] = []
        for span in batch.spans:
            session = span.stream.session
            inside = self._sessions.get(session)
            if inside is None:
                inside = self._sessions[session] = LoopContents(session)
            new = [Entry(span.stream, position, False) for position in span.positions]
            entries += new
            inside.entries.extend(new)
            if span.is_last:
                inside.entries.append(Entry(span.stream, None, True))
        self._inside += len(entries)
        return entries

    # -- control --------------------------------------------------------------------------------

    def end_cycles(self) -> None:
        """Stops the rounds: a row that would go round leaves with an error instead."""
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

    def count_held(self) -> int:
        """See `Order.count_held`."""
        return super().count_held() + len(self._returned) + len(self._sessions) + self._inside

    def clear(self) -> None:
        """See `Order.clear`."""
        super().clear()
        self._returned.clear()
        self._sessions.clear()
        self._inside = 0
