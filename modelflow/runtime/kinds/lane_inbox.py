"""The queue of a stream unit: one call at a time for each session, in the session's order."""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox, InboxPolicy, bytes_of
from modelflow.runtime.kinds.numbering import Numbering
from modelflow.runtime.segment import Batch, Columns, Segment, Slice, Stream
from modelflow.runtime.timeline import Timeline

if TYPE_CHECKING:
    from modelflow.runtime.session import Session

__all__ = ["Lane", "LaneInbox", "OpenStream", "StreamBatch"]


class OpenStream:
    """A stream while a unit works on it; one worker at a time has it.

    Attributes:
        stream: What comes in.
        outputs: How the buffers of each output are numbered.
        state: The unit's own dict.
        events: What `Context.send_event` was given and the unit has not seen; the inbox guards it.
        was_event: The last call was for an event.
        is_held: `Context.hold` was called in the last call.
        is_started: ``stream_start`` has returned.
        is_ended: No more buffers come in.
        is_over: ``stream_end`` is called, or never will be: no event is taken any more.
        failure: What ``stream_start`` raised: the error of every buffer.
        is_failure_given: Some buffer has it.
        delayed: How many events are to come later.
    """

    __slots__ = (
        "delayed",
        "events",
        "failure",
        "is_ended",
        "is_failure_given",
        "is_held",
        "is_over",
        "is_started",
        "outputs",
        "state",
        "stream",
        "was_event",
    )

    def __init__(self, stream: Stream, outputs: list[Numbering]) -> None:
        self.stream = stream
        self.outputs = outputs
        self.state: dict[str, Any] = {}
        self.events: deque[Any] = deque()
        self.delayed = 0
        self.was_event = self.is_held = False
        self.is_started = self.is_ended = self.is_over = self.is_failure_given = False
        self.failure: Exception | None = None


class Lane:
    """What waits of one session, in order, and the stream that the unit works on.

    Attributes:
        session: Whose lane it is.
        segments: What waits.
        rows: How many rows that is.
        open: The stream that the unit works on.
        is_busy: A worker has it.
        is_queued: It is among those that workers may take.
        is_parked: Its events wait until the session's results are read.
        is_dropped: The session is cancelled: all that is left is to end the open stream.
    """

    __slots__ = (
        "is_busy",
        "is_dropped",
        "is_parked",
        "is_queued",
        "open",
        "rows",
        "segments",
        "session",
    )

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.segments: deque[Segment] = deque()
        self.rows = 0
        self.open: OpenStream | None = None
        self.is_busy = self.is_queued = self.is_parked = self.is_dropped = False

    @property
    def is_stalled(self) -> bool:
        """Tells whether what waits must let the open stream have its events first."""
        return self.open is not None and self.open.is_ended

    @property
    def has_event(self) -> bool:
        """Tells whether the unit may be called for an event now."""
        return self.open is not None and bool(self.open.events) and not self.is_parked

    @property
    def has_work(self) -> bool:
        """Tells whether a worker could do something now."""
        if self.is_busy or self.is_dropped:
            return not self.is_busy and self.open is not None
        return self.has_event or (bool(self.segments) and not self.is_stalled)


class StreamBatch(Batch):
    """The rows of one call of a stream unit, all of one stream.

    Attributes:
        lane: Where they came from; goes back by `LaneInbox.done`.
        event: What the unit is called with instead of rows, or None.
    """

    __slots__ = ("event", "lane")

    def __init__(self, lane: Lane, part: Slice, columns: Columns, *, event: Any = None) -> None:
        super().__init__([part], columns, False)
        self.lane = lane
        self.event = event


class LaneInbox(Inbox):
    """Hands out one batch a session at a time, in the session's order; sessions take turns.

    The streams of a session are worked on one after the other. Buffers behind a stream that waits
    for an event are not ready, and never make a producer wait.
    """

    def __init__(
        self,
        node: str,
        ports: Sequence[str],
        policy: InboxPolicy,
        clock: Clock,
        *,
        depth: int,
        unread_bound: int,
    ) -> None:
        """Takes, beside what every inbox does, what concerns streams and their events.

        ``depth`` is how many expands enclose the node: of the streams above, only the ends pass
        here. At ``unread_bound`` unread results, a session's events wait for its reader.
        """
        super().__init__(node, ports, policy, clock)
        self._depth = depth
        self._unread_bound = unread_bound
        self._lanes: dict[Session, Lane] = {}
        self._later: Timeline[tuple[Lane, OpenStream, Any]] = Timeline(clock)

    # -- in -------------------------------------------------------------------------------------

    def _add(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            session = segment.stream.session
            if session.is_cancelled:
                continue
            lane = self._lanes.get(session)
            if lane is None:
                lane = self._lanes[session] = Lane(session)
            lane.segments.append(segment)
            self._count(lane, segment, 1)
            self._offer(lane)

    def _count(self, lane: Lane, segment: Segment, sign: int) -> None:
        rows = sign * len(segment.positions)
        lane.rows += rows
        if not lane.is_stalled:
            self.ready += rows
        if self.policy.byte_bound is not None:
            self.ready_bytes += sign * bytes_of(segment)

    def _offer(self, lane: Lane) -> None:
        if not lane.is_queued and lane.has_work:
            lane.is_queued = True
            self._queue.append(lane)

    def post(self, lane: Lane, stream: OpenStream, event: Any, delay: float = 0.0) -> bool:
        """Takes an event for a stream; False if the stream is over. Called from any thread.

        ``delay``: seconds after which the unit is called for it.
        """
        with self._lock:
            if stream.is_over or self._is_closed or lane.is_dropped:
                return False
            if delay > 0:
                stream.delayed += 1
                self._later.add((lane, stream, event), delay)
                if self._idle:
                    self._work.notify()  # who waits must not wait longer than that
            else:
                stream.events.append(event)
                self._offer_and_wake(lane)
            return True

    def _post_due(self) -> float | None:
        """Hands out the delayed events that are due; returns the seconds until the next one."""
        if not self._later:  # as ever but for units that have asked for it
            return None
        for lane, stream, event in self._later.due():
            stream.delayed -= 1
            if not (stream.is_over or lane.is_dropped):
                stream.events.append(event)
                self._offer(lane)
        return self._later.left()

    def _offer_and_wake(self, lane: Lane) -> None:
        self._offer(lane)
        if self._idle and self._queue:
            self._wake_worker()

    # -- out ------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        self._post_due()
        return True

    def _rest(self, timeout: float | None = None) -> None:
        left = self._post_due()
        if not self._queue:
            super()._rest(left if timeout is None else timeout)

    def take_nowait(self) -> Batch | None:
        """Returns a batch of what is ready, or None; waits where only delayed events are left."""
        with self._lock:
            while (left := self._post_due()) is not None and not self._queue:
                self._clock.wait(self._work, left)
        return super().take_nowait()

    def _cut(self, size: int) -> Batch:
        lane: Lane = self._queue.popleft()
        lane.is_queued = False
        if not lane.has_work:
            return Batch([], [], False)
        lane.is_busy = True
        stream = lane.open
        if stream is not None and lane.is_dropped:
            return StreamBatch(lane, Slice(stream.stream, (), True, None), self._nothing())
        if stream is not None and lane.has_event:
            # By turns: a unit that sends an event in every call must not starve its input.
            stream.was_event = not (stream.was_event and lane.segments and not lane.is_stalled)
            if stream.was_event:
                part = Slice(stream.stream, (), False, None)
                return StreamBatch(lane, part, self._nothing(), event=stream.events.popleft())
        return self._rows(lane, size)

    def _rows(self, lane: Lane, size: int) -> Batch:
        picked: list[Segment] = []
        left = size
        while lane.segments:
            segment = lane.segments[0]
            count = len(segment.positions)
            if picked and (segment.stream is not picked[0].stream or (left == 0 and count)):
                break
            lane.segments.popleft()
            if count > left:
                segment, rest = segment.split(left)
                lane.segments.appendleft(rest)
                count = left
            left -= count
            picked.append(segment)
            self._count(lane, segment, -1)
            if segment.is_last:
                break
        if self._producers or self._room_callbacks:
            self._signal_room()
        whole = Batch.of(picked, self._width)
        batch = StreamBatch(lane, whole.slices[0], whole.columns)
        batch.has_errors = whole.has_errors
        return batch

    def _nothing(self) -> Columns:
        return [[] for _ in range(self._width)]

    def is_above(self, stream: Stream) -> bool:
        """Tells whether only the end of ``stream`` passes here: it encloses the node's streams."""
        return stream.depth < self._depth

    def try_end(self, lane: Lane, stream: OpenStream) -> bool:
        """Notes that no more buffers come in; True if nothing else keeps the stream open."""
        with self._lock:
            if not stream.is_ended:
                self.ready -= lane.rows
                stream.is_ended = True
                if self._producers or self._room_callbacks:
                    self._signal_room()
            is_kept = stream.is_held or bool(stream.events) or stream.delayed > 0
            stream.is_over = lane.is_dropped or not is_kept
            return stream.is_over

    def done(self, lane: Lane, *, is_lane_end: bool = False) -> None:
        """Gives a lane back after a call; ``is_lane_end``: the session's end has passed."""
        session = lane.session
        is_unread = session.unread >= self._unread_bound and not session.is_cancelled
        with self._lock:
            if lane.open is not None and lane.open.is_over:
                lane.open = None
                self.ready += lane.rows
            if is_lane_end or (lane.is_dropped and lane.open is None):
                self._lanes.pop(session, None)
            lane.is_busy = False
            lane.is_parked = is_unread and lane.open is not None and bool(lane.open.events)
            self._offer_and_wake(lane)
            is_parked = lane.is_parked
        if is_parked:  # not under the lock: the callback takes it
            unpark = partial(self._unpark, lane)
            session.on_read(self._unread_bound, unpark, is_sending=False)

    def _unpark(self, lane: Lane) -> None:
        with self._lock:
            lane.is_parked = False
            self._offer_and_wake(lane)

    # -- control --------------------------------------------------------------------------------

    def _drop(self, session: "Session") -> None:
        self._forget(session)
        lane = self._lanes.get(session)
        if lane is None:
            return
        for segment in lane.segments:
            self._count(lane, segment, -1)
        lane.segments.clear()
        lane.is_dropped = True
        if lane.open is None and not lane.is_busy:
            del self._lanes[session]
        self._offer_and_wake(lane)  # the unit ends the stream that it has begun

    def abandoned(self) -> StreamBatch | None:
        """Returns the end of a stream that has begun and got none, once the inbox is closed."""
        with self._lock:
            for lane in self._lanes.values():
                if lane.open is not None and not lane.is_busy:
                    lane.is_busy = lane.is_dropped = True
                    part = Slice(lane.open.stream, (), True, None)
                    return StreamBatch(lane, part, self._nothing())
            return None
