"""The worker thread of a stream unit's stage.

The worker takes the queue of a session with a batch of its rows. It opens the stream if the rows
are its first rows. It calls the unit, sends the results on, and returns the queue.
"""

from typing import Any

from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.stream.by_session import BySession
from modelflow.runtime.kinds.stream.call import StreamCall
from modelflow.runtime.kinds.stream.numbering import Numbering
from modelflow.runtime.kinds.stream.session_queue import OpenStream, SessionQueue, StreamBatch
from modelflow.runtime.session.segment import Batch, Segment, Span, Stream
from modelflow.runtime.session.watcher import Part, Watcher
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.worker_slot import Handoff
from modelflow.runtime.workers.deadlines import deadlines_of
from modelflow.runtime.workers.worker import Worker
from modelflow.runtime.workers.worker_report import WorkerOwner
from modelflow.unit import kind as kinds


class StreamWorker(Worker):
    """The worker of a stream unit: processes one stream at a time.

    The ends of enclosing streams are passed on without a call.
    """

    call: StreamCall

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        super().__init__(stage, number, owner, clock)
        assert isinstance(stage.order, BySession)  # made by this kind
        self._order = stage.order
        self._width = max(1, len(stage.plan.routes))
        self._unread_bound = stage.unread_bound
        spec = stage.plan.unit.spec
        assert isinstance(spec.kind, kinds.Stream)
        self._count = kinds.Count.ANY if spec.is_sink else spec.kind.count

    def finish(self) -> None:
        """Ends the streams that are still open."""
        while (batch := self.stage.inbox.change(self._order.end_abandoned)) is not None:
            self.run(batch)

    def run(
        self,
        batch: Batch,
        handoff: Handoff | None = None,  # noqa: ARG002 - the next worker is always woken
    ) -> None:
        """Calls the unit for a batch of one stream, and sends the results on."""
        assert isinstance(batch, StreamBatch)  # made by the order of this kind
        session_queue, (span,) = batch.session_queue, batch.spans
        if span.stream.depth < self.stage.plan.depth:
            # A stream that encloses the node's streams. Only its end passes here.
            self._send([Segment(span.stream, (), [[]], span.is_last, False)] * self._width)
            self._on_done(session_queue, is_session_end=span.is_session_end)
            return
        stream = session_queue.open
        if stream is None:
            stream = session_queue.open = self._open(span.stream)
        if span.stream.session.has_deadlines:
            self._expire(batch, deadlines_of(batch.columns))
        if self._on_device is not None:
            self._on_device.arrive(batch)
        start = self._enter("process")
        is_over = self._call(stream, batch)
        waited = start - batch.arrived if batch.arrived else -1.0
        end = self._note(batch.spans, len(span.positions), start, self.call.given, waited)
        self._leave()
        watcher = span.stream.session.watcher  # read once, because it may leave meanwhile
        if watcher is not None:
            self._tell(watcher, span, start, end)
        if not session_queue.is_dropped:
            self._emit(stream, is_over)
            self._count_out(batch)
        self._on_done(session_queue, is_session_end=is_over and stream.stream.depth == 0)

    def _tell(self, watcher: Watcher, span: Span, start: float, end: float) -> None:
        """Reports a call to a watcher of the session, even a call for an event, without rows."""
        plan, size = self.stage.plan.unit, len(span.positions)
        found = (buffer.error for column in self.call.given for buffer in column)
        error = next((one for one in found if one is not None and one.node == plan.node), None)
        part = Part(
            plan.node, plan.spec.name, self._device, start, end, size, size, error, self.track
        )
        watcher.on_call(part)

    def _call(self, stream: OpenStream, batch: StreamBatch) -> bool:
        """Makes the calls for a batch; returns True if the stream ends with the batch."""
        call, session_queue, (span,) = self.call, batch.session_queue, batch.spans
        inbox, order = self.stage.inbox, self._order

        def post(event: Any, delay: float) -> bool:
            return inbox.change(lambda: order.post(session_queue, stream, event, delay))

        call.begin()
        if not session_queue.is_dropped:
            if not stream.is_started and stream.failure is None:
                call.start(stream, post)
            if batch.event is not None:
                call.event(stream, batch.event, post)
            else:
                call.rows(stream, span.positions, batch.columns, post)
        is_over = (span.is_last or stream.is_ended) and inbox.change(
            lambda: order.try_end(session_queue, stream)
        )
        if is_over:
            call.end(stream, is_cancelled=session_queue.is_dropped)
        return is_over

    def _open(self, source: Stream) -> OpenStream:
        return OpenStream(source, [Numbering(source, self._count) for _ in range(self._width)])

    def _emit(self, stream: OpenStream, is_over: bool) -> None:
        segments = []
        for given, numbering in zip(self.call.given, stream.outputs, strict=True):
            positions, column = numbering.number(given)
            # Not `batch.has_errors`: an error may be passed on in a later call than it arrived.
            has_errors = any(buffer.error is not None for buffer in column)
            segments.append(Segment(numbering.stream, positions, [column], is_over, has_errors))
        if is_over or any(segment.positions for segment in segments):
            self._send(segments)

    def _send(self, segments: list[Segment]) -> None:
        self.stage.outbox.send([(segment,) for segment in segments])

    def _on_done(self, session_queue: SessionQueue, *, is_session_end: bool) -> None:
        """Returns the session queue, parked while too many results of the session are unread."""
        inbox, order, session = self.stage.inbox, self._order, session_queue.session
        is_unread = session.reader.unread >= self._unread_bound and not session.is_cancelled
        is_parked = inbox.change(
            lambda: order.mark_done(
                session_queue, is_session_end=is_session_end, is_parked=is_unread
            )
        )
        inbox.call_due()
        if is_parked:

            def unpark() -> None:
                inbox.change(lambda: order.unpark(session_queue))

            reader = session.reader
            reader.on_read(self._unread_bound, unpark, lambda: reader.is_finished)
