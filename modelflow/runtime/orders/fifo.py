"""First come, first served: the order of most nodes. Rows of the first class come before others.

Example: sessions A and B alternate and send three rows each. With ``batch_size=4`` and several
workers, the batches have these spans and tickets::

    batch    spans          tickets
    first    A0 B0 A1 B1    A: 0, B: 0, A: 1, B: 1
    second   A2 B2          A: 2, B: 2

The outbox sends the results of each session on in the order of its tickets.

Rows of the first class (`Session.is_first`) are inserted behind others of their class, and before
all other rows. Rows that have waited longer than `PATIENCE` pass them, at most one batch in that
time. Other rows therefore always advance.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from modelflow.runtime.orders.order import InboxPolicy, bytes_of, first_rows
from modelflow.runtime.orders.turns import PATIENCE
from modelflow.runtime.session.segment import Batch, Segment, Span
from modelflow.runtime.session.session import Session

# The rows of a paused session wait aside until earlier rows have left the outbox. Producers wait if
# the rows of all paused sessions reach this multiple of the bound. See benchmarks/sessions.py.
_PAUSED_SHARE = 16


class Fifo:
    """The order that gives out rows in the order of their arrival."""

    has_delays = False

    def __init__(self, policy: InboxPolicy, width: int) -> None:
        """Creates an empty order.

        Args:
            policy: The bounds.
            width: The number of ports of a row.
        """
        self.ready = 0
        self.ready_bytes = 0
        self.dropped = 0
        self._policy = policy
        self._width = width
        self._bound = min(policy.bounds)
        self._is_ordered = policy.is_ordered
        self._is_simple = policy.byte_bound is None  # without a bound, bytes are not counted
        # A whole batch is split into segments only when it must be joined or cut.
        self._queue: deque[Segment | Batch] = deque()
        self.waiting: object = self._queue
        self.add_whole: Callable[[Batch], None] | None = None
        if type(self) is Fifo and self._is_simple:
            self.add_whole = self._add_whole
        self._tickets: dict[Session, int] = {}
        self._paused: dict[Session, deque[Segment]] = {}
        self._paused_rows = 0
        self._has_first = False  # the queue may begin with rows of the first class
        self._newest = self._passed = 0.0  # arrival of such a row; when another row passed them

    def figures(self) -> dict[str, dict[str, int]]:
        """See `Order.figures`."""
        return {}

    def set_bounds(self, policy: InboxPolicy) -> None:
        """See `Order.set_bounds`."""
        self._policy = policy
        self._bound = min(policy.bounds)
        self._is_ordered = policy.is_ordered
        self._is_simple = policy.byte_bound is None
        self.ready_bytes = 0 if self._is_simple else sum(map(bytes_of, self._all()))

    @property
    def is_holding(self) -> bool:
        """See `Order`."""
        return bool(self._paused)

    def add(self, port: int, segments: Sequence[Segment]) -> None:  # noqa: ARG002 - one way in
        """Appends rows."""
        ready, has_first = self.ready, False
        for segment in segments:
            ready += len(segment.positions)
            has_first = has_first or segment.stream.session.is_first
        self.ready = ready
        if has_first:
            self._add_first(segments)
        else:
            self._queue.extend(segments)
        if self._policy.byte_bound is not None:
            self.ready_bytes += sum(map(bytes_of, segments))

    def _add_first(self, segments: Sequence[Segment]) -> None:
        """Appends segments; segments of the first class go before all other rows."""
        for segment in segments:
            if not segment.stream.session.is_first:
                self._queue.append(segment)
                continue
            self._has_first, self._newest = True, segment.arrived
            self._queue.insert(self._count_first(), segment)

    def _count_first(self) -> int:
        """Returns how many segments of the first class the queue begins with."""
        for place, one in enumerate(self._queue):
            if isinstance(one, Batch) or not one.stream.session.is_first:
                return place
        return len(self._queue)

    def _count_first_rows(self) -> int:
        """Returns how many rows of the first class the queue begins with.

        The copy is one step, because `has_room` and `room` are called without the inbox's lock.
        """
        rows = 0
        for one in self._queue.copy():
            if isinstance(one, Batch) or not one.stream.session.is_first:
                break
            rows += len(one.positions)
        return rows

    def _let_pass(self, size: int) -> None:
        """Moves up to ``size`` rows that have waited too long to the front."""
        place = self._count_first()
        self._has_first = place > 0
        queue = self._queue
        if not 0 < place < len(queue) or self._newest - self._passed <= PATIENCE:
            return
        queue.rotate(-place)
        moved: list[Segment] = []
        while size > 0 and len(queue) > place and self._newest - queue[0].arrived > PATIENCE:
            self._passed = self._newest
            waiting = queue.popleft()
            if isinstance(waiting, Batch):
                queue.extendleft(reversed(waiting.segments()))
            else:
                # No rest may stay before the first class, whose next rows would pass their own.
                moved.append(first_rows(waiting, size, queue))
                size -= len(moved[-1].positions)
        queue.rotate(place)
        queue.extendleft(reversed(moved))

    def _add_whole(self, batch: Batch) -> None:
        for span in batch.spans:
            if span.stream.session.is_first:
                self.add(0, batch.segments())
                return
        self._queue.append(batch)
        self.ready += len(batch.columns[0])

    def has_room(self, port: int, session: Session | None) -> bool:
        """See `Order.has_room`; a paused session has no room."""
        policy = self._policy
        if self._paused and (
            session in self._paused or self._paused_rows >= self._bound * _PAUSED_SHARE
        ):
            return False
        ready = self.ready
        if session is not None and self._has_first and not session.is_first:
            ready -= self._count_first_rows()
        return ready < policy.bounds[port] and (
            policy.byte_bound is None or self.ready_bytes < policy.byte_bound
        )

    def room(self, port: int) -> int:
        """See `Order.room`; a load of the first class does not keep other sessions out."""
        if self._paused_rows >= self._bound * _PAUSED_SHARE:
            return 0
        byte_bound = self._policy.byte_bound
        if byte_bound is not None and self.ready_bytes >= byte_bound:
            return 0
        first = self._count_first_rows() if self._has_first else 0
        return self._policy.bounds[port] - self.ready + first

    def is_roomy(self) -> bool:
        """Returns whether half of the queue is free.

        With less free room, producers and workers would wake each other for every row.
        """
        half = self._bound // 2
        if self.ready > half and not (
            self._has_first and self.ready - self._count_first_rows() <= half
        ):
            return False
        byte_bound = self._policy.byte_bound
        return byte_bound is None or self.ready_bytes <= byte_bound // 2

    # -- out ------------------------------------------------------------------------------------

    def cut(self, size: int) -> Batch | None:
        """See `Order.cut`."""
        if not self._queue:
            return None
        if self._has_first:
            self._let_pass(size)
        first = self._queue[0]
        if isinstance(first, Batch):
            whole = self._whole(first, size)
            if whole is not None:
                return whole
        elif len(self._queue) == 1 and self._is_simple:
            count = len(first.positions)
            if count <= size and not (self._paused or first.stream.session.is_cancelled):
                self._queue.popleft()
                self.ready -= count
                return self._alone(first)
        picked: list[Segment] = []
        self._take_rows(self._queue, size, picked)
        if not picked:
            return None
        return self._batch(picked)

    def _whole(self, batch: Batch, size: int) -> Batch | None:
        """Gives out the first batch, or returns None if the batch must be cut or joined."""
        rows = len(batch.columns[0])
        if rows > size or (rows < size and len(self._queue) > 1) or self._paused:
            return None
        for span in batch.spans:
            if span.stream.session.is_cancelled:
                return None
        self._queue.popleft()
        self.ready -= rows
        for span in batch.spans:
            span.ticket = self._ticket(span) if self._is_ordered else None
        return batch

    def _alone(self, segment: Segment) -> Batch:
        """Returns a batch of one segment; a fast path of `_batch` for most requests."""
        span = Span(segment.stream, segment.positions, segment.is_last)
        if self._is_ordered:
            span.ticket = self._ticket(span)
        batch = Batch([span], segment.columns, segment.has_errors)
        batch.arrived = segment.arrived
        return batch

    def _batch(self, picked: list[Segment]) -> Batch:
        batch = Batch.of(picked, self._width)
        if self._is_ordered:
            for span in batch.spans:
                span.ticket = self._ticket(span)
        return batch

    def _take_rows(self, segments: "deque[Any]", size: int, picked: list[Segment]) -> int:
        """Moves up to ``size`` rows, and the ends behind them, to ``picked``.

        Drops rows of cancelled sessions, and puts rows of paused sessions aside.

        Returns:
            The number of rows that are missing to ``size``.
        """
        lacking, paused = size, self._paused
        has_bytes = self._policy.byte_bound is not None
        while segments:
            segment = segments[0]
            if type(segment) is Batch:
                segments.popleft()
                segments.extendleft(reversed(segment.segments()))
                continue
            count = len(segment.positions)
            if lacking == 0 and count:
                break
            segments.popleft()
            session = segment.stream.session
            is_out = session.is_cancelled or (paused and session in paused)
            if count > lacking and not is_out:
                segment = first_rows(segment, lacking, segments)
                count = lacking
            self.ready -= count
            if has_bytes:
                self.ready_bytes -= bytes_of(segment)
            if is_out:
                self._put_aside(session, segment)
            else:
                lacking -= count
                picked.append(segment)
        return lacking

    def _put_aside(self, session: Session, segment: Segment) -> None:
        if session.is_cancelled:
            self.dropped += len(segment.positions)
            self._forget(session)
        else:
            self._paused[session].append(segment)
            self._paused_rows += len(segment.positions)

    def _ticket(self, span: Span) -> int | None:
        session = span.stream.session
        if session.request_batch is not None:
            return None  # the rows of a request batch have no order
        ticket = self._tickets.get(session, 0)
        if not (span.is_last and span.stream.depth == 0):  # `is_session_end`, without a call
            self._tickets[session] = ticket + 1
            return ticket
        self._tickets.pop(session, None)
        return ticket or None  # None if the session is one span, which no other span can overtake

    # -- control --------------------------------------------------------------------------------

    def pause(self, session: Session) -> None:
        """See `Order.pause`; `_take_rows` puts the session's rows aside."""
        self._paused.setdefault(session, deque())

    def resume(self, session: Session) -> None:
        """See `Order.resume`; rows that were put aside come first in their class."""
        aside = self._paused.pop(session, None)
        if aside is None:
            return
        self._paused_rows -= sum(len(segment.positions) for segment in aside)
        place = 0 if session.is_first else self._count_first()
        self._has_first = self._has_first or session.is_first
        self._queue.rotate(-place)
        self._queue.extendleft(reversed(aside))
        self._queue.rotate(place)
        for segment in aside:
            self.ready += len(segment.positions)
            if self._policy.byte_bound is not None:
                self.ready_bytes += bytes_of(segment)

    def next_due(self) -> float | None:
        """Returns None, because this order has no delayed events."""
        return None

    def drain(self) -> None:
        """Does nothing, because this order has no delayed events."""

    def end_cycles(self) -> None:
        """Does nothing, because this order has no cycles."""

    def drop(self, session: Session) -> None:
        """See `Order.drop`."""
        kept = [one for one in self._all() if one.stream.session is not session]
        self._queue.clear()  # the same object: see `Order.waiting`
        self._queue.extend(kept)
        self._count_anew(kept)
        self._forget(session)

    def _all(self) -> Iterator[Segment]:
        for one in self._queue:
            if isinstance(one, Batch):
                yield from one.segments()
            else:
                yield one

    def _count_anew(self, kept: Sequence[Segment]) -> None:
        """Counts all rows again: a Ctrl-C may have come between adding and counting a row."""
        self.ready = sum(len(segment.positions) for segment in kept)
        if self._policy.byte_bound is not None:
            self.ready_bytes = sum(map(bytes_of, kept))

    def clear(self) -> None:
        """See `Order.clear`."""
        self._queue.clear()
        self._tickets.clear()
        self._paused.clear()
        self.ready = self.ready_bytes = self._paused_rows = 0

    def count_held(self) -> int:
        """See `Order.count_held`."""
        return len(self._queue) + len(self._tickets) + len(self._paused) + self.ready

    def _forget(self, session: Session) -> None:
        self._tickets.pop(session, None)
        aside = self._paused.pop(session, None)
        if aside is not None:
            self._paused_rows -= sum(len(segment.positions) for segment in aside)
