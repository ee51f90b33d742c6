"""What waits of one session at a stream unit, and the stream that the unit works on."""

from collections import deque
from typing import Any

from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.session.segment import Batch, Columns, Segment, Span, Stream
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.inheriting import StreamInputs


class OpenStream:
    """A stream while a unit works on it; one worker at a time has it."""

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
    """The stream that comes in."""
    outputs: list[Numbering]
    """How the buffers of each output are numbered."""
    state: dict[str, Any]
    """The unit's own dict."""
    events: deque[Any]
    """What `Context.send_event` was given and the unit has not seen; the inbox's lock guards it."""
    delayed: int
    """How many events are to come later."""
    was_event: bool
    """The last call was for an event."""
    is_held: bool
    """`Context.hold` was called in the last call."""
    is_started: bool
    """``stream_start`` has returned."""
    is_ended: bool
    """No more buffers come in."""
    is_over: bool
    """``stream_end`` is called, or never will be: no event is taken any more."""
    inputs: StreamInputs
    """What the unit was given, from which results inherit."""
    failure: BaseException | None
    """What ``stream_start`` raised: the error of every buffer."""
    is_failure_given: bool
    """Some buffer has that error."""

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
    """The rows that wait, in order."""
    rows: int
    """How many rows that is."""
    bytes: int
    """How many bytes their data takes, where the policy bounds them."""
    open: OpenStream | None
    """The stream that the unit works on."""
    is_busy: bool
    """A worker has the lane."""
    is_queued: bool
    """The lane is among those that workers may take."""
    is_parked: bool
    """Its events wait until the session's results are read."""
    is_dropped: bool
    """The session is cancelled: the open stream is to be ended, and nothing else."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.segments = deque()
        self.rows = self.bytes = 0
        self.open = None
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

    @property
    def is_kept_open(self) -> bool:
        """Tells whether the open stream waits for an event, and for nothing else."""
        return (
            not self.is_busy and self.open is not None and self.is_stalled and not self.open.events
        )


class StreamBatch(Batch):
    """The rows of one call of a stream unit, all of one stream."""

    __slots__ = ("event", "session_queue")

    session_queue: SessionQueue
    """Where the rows came from; goes back by `BySession.mark_done`."""
    event: Any
    """What the unit is called with instead of rows, or None."""

    def __init__(
        self, session_queue: SessionQueue, span: Span, columns: Columns, *, event: Any = None
    ) -> None:
        super().__init__([span], columns, False)
        self.session_queue = session_queue
        self.event = event
