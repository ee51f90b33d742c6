"""The order of a stream unit: one call at a time for each session, in the session's order.

Example: session A has sent the rows 0-9 and its end, B one row. With ``batch_size=4`` one worker
gets A's rows 0-3. Meanwhile another worker may get B's row. No worker gets A's rows 4-7 before the
first worker has called `mark_done`. If the unit sends itself events, A's batches alternate between
rows and events. A's stream ends after its last row and its last event.
"""

from collections.abc import Callable, Sequence
from typing import Any

from modelflow.runtime.clock import Clock, Delayed
from modelflow.runtime.kinds.stream.session_queue import OpenStream, SessionQueue, StreamBatch
from modelflow.runtime.orders.order import InboxPolicy, bytes_of, first_rows
from modelflow.runtime.orders.turns import Turns
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span
from modelflow.runtime.session.session import Session


class BySession:
    """The `Order` that gives out one batch of a session at a time; sessions take turns.

    Sessions of the first class take turns before all others; see `Turns`.

    The unit gets the streams of a session one after the other. Buffers behind a stream that waits
    for an event are not ready, and never make a producer wait.
    """

    is_holding = False

    def __init__(self, policy: InboxPolicy, width: int, clock: Clock) -> None:
        """Creates an empty order.

        Args:
            policy: The bounds.
            width: The number of ports of a row.
            clock: The clock of delayed events.
        """
        self.ready = 0
        self.dropped = 0
        self.ready_bytes = 0
        self.has_delays = False
        self.add_whole: Callable[[Batch], None] | None = None
        self._policy = policy
        self._width = width
        self._bound = min(policy.bounds)
        self._turns: Turns[SessionQueue] = Turns()
        self._has_first = False  # sessions of the first class may have rows here
        self._now = clock.now
        self.waiting: object = self._turns
        self._session_queues: dict[Session, SessionQueue] = {}
        self._later: Delayed[tuple[SessionQueue, OpenStream, Any]] = Delayed(clock)
        self._is_draining = self._is_ending = self._is_closed = False

    def figures(self) -> dict[str, dict[str, int]]:
        """See `Order.figures`."""
        return {}

    def set_bounds(self, policy: InboxPolicy) -> None:
        """See `Order.set_bounds`."""
        self._policy = policy
        self._bound = min(policy.bounds)

    # -- in -------------------------------------------------------------------------------------

    def add(self, port: int, segments: Sequence[Segment]) -> None:  # noqa: ARG002 - one way in
        """Appends rows to the queues of their sessions."""
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                self.dropped += len(segment.positions)
                continue
            session_queue = self._session_queues.get(session)
            if session_queue is None:
                session_queue = self._session_queues[session] = SessionQueue(session)
                self._has_first = self._has_first or session.is_first
            session_queue.segments.append(segment)
            self._count(session_queue, segment, 1)
            self._offer(session_queue)

    def _count(self, session_queue: SessionQueue, segment: Segment, sign: int) -> None:
        rows = sign * len(segment.positions)
        size = 0 if self._policy.byte_bound is None else sign * bytes_of(segment)
        session_queue.rows += rows
        session_queue.bytes += size
        if not session_queue.is_stalled:
            self.ready += rows
            self.ready_bytes += size

    def _offer(self, session_queue: SessionQueue) -> None:
        if self._is_closed or session_queue.is_queued:
            return
        if session_queue.has_work or (self._is_ending and session_queue.is_kept_open):
            session_queue.is_queued = True
            if session_queue.session.is_first:
                self._turns.add(session_queue, is_first=True)
            else:
                self._turns.append(session_queue)

    def has_room(self, port: int, session: Session | None) -> bool:
        """See `Order.has_room`."""
        byte_bound = self._policy.byte_bound
        ready = self.ready
        if session is not None and self._has_first and not session.is_first:
            ready -= self._count_first_rows()
        return ready < self._policy.bounds[port] and (
            byte_bound is None or self.ready_bytes < byte_bound
        )

    def room(self, port: int) -> int:
        """See `Order.room`; a load of the first class does not keep other sessions out."""
        byte_bound = self._policy.byte_bound
        if byte_bound is not None and self.ready_bytes >= byte_bound:
            return 0
        first = self._count_first_rows() if self._has_first else 0
        return self._policy.bounds[port] - self.ready + first

    def _count_first_rows(self) -> int:
        """Returns the number of ready rows of the first class.

        The copy is one step, because `has_room` and `room` are called without the inbox's lock.
        """
        queues = list(self._session_queues.values())
        return sum(one.rows for one in queues if one.session.is_first and not one.is_stalled)

    def is_roomy(self) -> bool:
        """See `Order.is_roomy`."""
        byte_bound = self._policy.byte_bound
        first = self._count_first_rows() if self._has_first else 0
        return self.ready - first <= self._bound // 2 and (
            byte_bound is None or self.ready_bytes <= byte_bound // 2
        )

    # -- events ---------------------------------------------------------------------------------

    def post(
        self, session_queue: SessionQueue, stream: OpenStream, event: Any, delay: float
    ) -> bool:
        """Adds an event for a stream.

        Args:
            session_queue: The queue of the stream's session.
            stream: The stream.
            event: The event.
            delay: The seconds after which the unit is called. A delayed event is refused while the
                flow drains.

        Returns:
            False if the event is refused, or the stream has ended, or the flow ends.
        """
        if stream.is_over or session_queue.is_dropped or self._is_ending:
            return False
        if delay > 0:
            if self._is_draining:
                return False
            stream.delayed += 1
            self._later.add((session_queue, stream, event), delay)
            self.has_delays = True
        else:
            stream.events.append(event)
            self._offer(session_queue)
        return True

    def next_due(self) -> float | None:
        """Moves due events to their streams; returns the seconds until the next event."""
        self._bring(self._later.due())
        self.has_delays = bool(self._later)
        return self._later.remaining()

    def drain(self) -> None:
        """Makes every delayed event due now, and refuses delayed events from now on."""
        self._is_draining = True
        self._bring(self._later.all())
        self.has_delays = False

    def end_cycles(self) -> None:
        """Refuses events from now on, and ends the streams that only wait for an event."""
        self._is_ending = True
        for session_queue in self._session_queues.values():
            self._offer(session_queue)

    def _bring(self, events: Any) -> None:
        for session_queue, stream, event in events:
            stream.delayed -= 1
            if not (stream.is_over or session_queue.is_dropped):
                stream.events.append(event)
                self._offer(session_queue)

    # -- out ------------------------------------------------------------------------------------

    def cut(self, size: int) -> Batch | None:
        """See `Order.cut`. The worker returns the session queue with `mark_done`."""
        turns = self._turns
        if turns.first:
            session_queue = turns.take(self._now)
        else:
            session_queue, turns.since = turns.popleft(), None
        session_queue.is_queued = False
        is_ending = self._is_ending and session_queue.is_kept_open
        if not session_queue.has_work and not is_ending:
            return None
        session_queue.is_busy = True
        stream = session_queue.open
        if stream is not None and session_queue.is_dropped:
            return StreamBatch(session_queue, Span(stream.stream, (), True), self._nothing())
        if stream is not None and session_queue.has_event:
            # Events and rows alternate, because a unit that sends an event in every call would
            # otherwise never get rows.
            stream.was_event = not (
                stream.was_event and session_queue.segments and not session_queue.is_stalled
            )
            if stream.was_event:
                event = stream.events.popleft()
                span = Span(stream.stream, (), False)
                return StreamBatch(session_queue, span, self._nothing(), event=event)
        if stream is not None and is_ending:
            return StreamBatch(session_queue, Span(stream.stream, (), True), self._nothing())
        return self._rows(session_queue, size)

    def _rows(self, session_queue: SessionQueue, size: int) -> Batch:
        picked: list[Segment] = []
        lacking = size
        while session_queue.segments:
            segment = session_queue.segments[0]
            count = len(segment.positions)
            if picked and (segment.stream is not picked[0].stream or (lacking == 0 and count)):
                break
            session_queue.segments.popleft()
            if count > lacking:
                segment = first_rows(segment, lacking, session_queue.segments)
                count = lacking
            lacking -= count
            picked.append(segment)
            self._count(session_queue, segment, -1)
            if segment.is_last:
                break
        whole = Batch.of(picked, self._width)
        batch = StreamBatch(session_queue, whole.spans[0], whole.columns)
        batch.has_errors = whole.has_errors
        batch.arrived = picked[0].arrived
        return batch

    def _nothing(self) -> Columns:
        return [[] for _ in range(self._width)]

    # -- after a call ---------------------------------------------------------------------------

    def try_end(self, session_queue: SessionQueue, stream: OpenStream) -> bool:
        """Stores that the stream has no more buffers; returns True if the stream can end now."""
        if not stream.is_ended:
            self.ready -= session_queue.rows
            self.ready_bytes -= session_queue.bytes
            stream.is_ended = True
        is_kept = bool(stream.events) or (
            not self._is_ending and (stream.is_held or stream.delayed > 0)
        )
        stream.is_over = session_queue.is_dropped or not is_kept
        return stream.is_over

    def mark_done(
        self, session_queue: SessionQueue, *, is_session_end: bool, is_parked: bool
    ) -> bool:
        """Takes a session queue back after a call.

        Args:
            session_queue: The queue of the batch from `cut`.
            is_session_end: True if the session's end has passed.
            is_parked: True if too many results of the session are unread. Then its events wait
                until `unpark`.

        Returns:
            True if the queue is parked now.
        """
        session = session_queue.session
        if session_queue.open is not None and session_queue.open.is_over:
            session_queue.open = None
            self.ready += session_queue.rows
            self.ready_bytes += session_queue.bytes
        if is_session_end or (
            (session_queue.is_dropped or self._is_closed) and session_queue.open is None
        ):
            self._session_queues.pop(session, None)
            self._has_first = self._has_first and any(one.is_first for one in self._session_queues)
        session_queue.is_busy = False
        session_queue.is_parked = (
            is_parked and session_queue.open is not None and bool(session_queue.open.events)
        )
        self._offer(session_queue)
        return session_queue.is_parked

    def unpark(self, session_queue: SessionQueue) -> None:
        """Gives out the events of a session again; see `mark_done`."""
        session_queue.is_parked = False
        self._offer(session_queue)

    # -- control --------------------------------------------------------------------------------

    def pause(self, session: Session) -> None:
        """Does nothing, because a session's calls never overlap and its results are in order."""

    def resume(self, session: Session) -> None:
        """Does nothing; see `pause`."""

    def drop(self, session: Session) -> None:
        """Drops the rows of a session; the unit still gets the end of its open stream."""
        session_queue = self._session_queues.get(session)
        if session_queue is None:
            return
        session_queue.segments.clear()
        session_queue.rows = session_queue.bytes = 0
        # Counted again: a Ctrl-C may have come between adding a row and counting it.
        going = [one for one in self._session_queues.values() if not one.is_stalled]
        self.ready = sum(one.rows for one in going)
        self.ready_bytes = sum(one.bytes for one in going)
        session_queue.is_dropped = True
        if session_queue.open is None and not session_queue.is_busy:
            del self._session_queues[session]
        self._offer(session_queue)

    def clear(self) -> None:
        """Drops all rows; `end_abandoned` ends the open streams later."""
        self._is_ending = self._is_closed = True
        self._turns.clear()
        self._later.clear()
        begun = [
            session_queue
            for session_queue in self._session_queues.values()
            if session_queue.open is not None or session_queue.is_busy
        ]
        self._session_queues = {session_queue.session: session_queue for session_queue in begun}
        for session_queue in begun:
            session_queue.segments.clear()
            session_queue.rows = session_queue.bytes = 0
        self.ready = self.ready_bytes = 0

    def count_held(self) -> int:
        """See `Order.count_held`."""
        return len(self._session_queues) + len(self._turns) + self.ready + bool(self._later)

    def end_abandoned(self) -> StreamBatch | None:
        """Returns the end of a stream that is still open after the inbox was closed, or None."""
        for session_queue in self._session_queues.values():
            if session_queue.open is not None and not session_queue.is_busy:
                session_queue.is_busy = session_queue.is_dropped = True
                return StreamBatch(
                    session_queue, Span(session_queue.open.stream, (), True), self._nothing()
                )
        return None
