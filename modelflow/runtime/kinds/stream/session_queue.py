"""The queue of one session at a stream unit, and the open stream of the session."""

from collections import deque
from typing import Any

from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span, Stream
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.inheriting import StreamInputs


class OpenStream:
    """A stream between its first and its last call; one worker at a time uses the stream."""

    __slots__ = (
        "delayed",
        "events",
        "failure",
        "inputs",
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

    stream: Stream
    """The input stream."""
    outputs: list[Numbering]
    """The positions of the results of each output."""
    state: dict[str, Any]
    """The dict of the unit for this stream."""
    events: deque[Any]
    """The events of `Context.send_event` that wait for a call, guarded by the inbox's lock."""
    delayed: int
    """The number of delayed events."""
    was_event: bool
    """True if the last call was for an event."""
    is_held: bool
    """True if the last call used `Context.hold`."""
    is_started: bool
    """True once ``stream_start`` has returned."""
    is_ended: bool
    """True once the last input buffer has arrived."""
    is_over: bool
    """True once the stream accepts no events, because ``stream_end`` is called now or never."""
    inputs: StreamInputs
    """The inputs of the unit, from which results inherit meta."""
    failure: BaseException | None
    """The exception of ``stream_start``, which becomes the error of every buffer."""
    is_failure_given: bool
    """True once a buffer has that error."""

    def __init__(self, stream: Stream, outputs: list[Numbering]) -> None:
        self.stream = stream
        self.outputs = outputs
        self.state = {}
        self.events = deque()
        self.delayed = 0
        self.was_event = self.is_held = False
        self.is_started = self.is_ended = self.is_over = self.is_failure_given = False
        self.failure = None
        self.inputs = StreamInputs()


class SessionQueue:
    """A session's own queue, and its open stream."""

    __slots__ = (
        "bytes",
        "is_busy",
        "is_dropped",
        "is_parked",
        "is_queued",
        "open",
        "rows",
        "segments",
        "session",
    )

    session: Session
    """The session of the rows."""
    segments: deque[Segment]
    """The waiting rows, in order."""
    rows: int
    """The number of waiting rows."""
    bytes: int
    """The size of the waiting rows' data, if the policy bounds the bytes."""
    open: OpenStream | None
    """The open stream of the session, if any."""
    is_busy: bool
    """True while a worker has a batch of this session."""
    is_queued: bool
    """True while workers may take a batch of this session."""
    is_parked: bool
    """True while events wait because too many results of the session are unread."""
    is_dropped: bool
    """True if the session is cancelled, and only the end of the open stream must still be sent."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.segments = deque()
        self.rows = self.bytes = 0
        self.open = None
        self.is_busy = self.is_queued = self.is_parked = self.is_dropped = False

    @property
    def is_stalled(self) -> bool:
        """Returns whether waiting rows must wait for the events of the open stream."""
        stream = self.open  # read once, because producers call this without the inbox's lock
        return stream is not None and stream.is_ended

    @property
    def has_event(self) -> bool:
        """Returns whether the unit may be called for an event now."""
        return self.open is not None and bool(self.open.events) and not self.is_parked

    @property
    def has_work(self) -> bool:
        """Returns whether a worker could take a batch now."""
        if self.is_busy or self.is_dropped:
            return not self.is_busy and self.open is not None
        return self.has_event or (bool(self.segments) and not self.is_stalled)

    @property
    def is_kept_open(self) -> bool:
        """Returns whether the open stream waits for an event only."""
        return (
            not self.is_busy and self.open is not None and self.is_stalled and not self.open.events
        )


class StreamBatch(Batch):
    """The rows of one call of a stream unit, all of one stream."""

    __slots__ = ("event", "session_queue")

    session_queue: SessionQueue
    """The queue of the rows, which the worker returns with `BySession.mark_done`."""
    event: Any
    """The event for which the unit is called instead of rows, or None."""

    def __init__(
        self, session_queue: SessionQueue, span: Span, columns: Columns, *, event: Any = None
    ) -> None:
        super().__init__([span], columns, False)
        self.session_queue = session_queue
        self.event = event
