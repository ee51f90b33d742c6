"""One thread of a stream unit's stage."""

import time
from typing import Any

from modelflow.runtime.kinds.lane_inbox import LaneInbox, OpenStream, StreamBatch
from modelflow.runtime.kinds.numbering import Numbering
from modelflow.runtime.kinds.stream_call import StreamCall
from modelflow.runtime.segment import Batch, Segment, Stream
from modelflow.runtime.worker import Worker

__all__ = ["StreamWorker"]


class StreamWorker(Worker):
    """Works on one stream at a time, and passes on the ends of those that enclose it."""

    def finish(self) -> None:
        """Ends the streams that were left open."""
        inbox = self.stage.inbox
        assert isinstance(inbox, LaneInbox)  # made by the stage for this kind
        while (batch := inbox.abandoned()) is not None:
            self.run(batch)

    def run(self, batch: Batch) -> None:
        """Calls the unit for a batch of one stream, and sends the results on."""
        assert isinstance(batch, StreamBatch)  # made by the inbox of this kind
        inbox, lane, (part,) = self.stage.inbox, batch.lane, batch.slices
        assert isinstance(inbox, LaneInbox)
        if inbox.is_above(part.stream):
            self._send([Segment(part.stream, (), [[]], part.is_last, False)] * self._width)
            inbox.done(lane, is_lane_end=part.is_lane_end)
            return
        stream = lane.open
        if stream is None:
            stream = lane.open = self._opened(part.stream)
        if part.stream.session.deadlines:
            self._expire(batch)
        if self._transfer is not None:
            self._arrive(self._transfer, batch)
        start = time.perf_counter()
        self._enter("process")
        is_over = self._call(inbox, stream, batch)
        self._leave()
        call = self._stream_call
        self._stats.count(len(part.positions), call.failed, time.perf_counter() - start)
        if not lane.is_dropped:
            self._emit(stream, is_over)
            self._count_out(batch)
        inbox.done(lane, is_lane_end=is_over and stream.stream.depth == 0)

    def _call(self, inbox: LaneInbox, stream: OpenStream, batch: StreamBatch) -> bool:
        """Makes the calls that a batch brings about; True if the stream is over with them."""
        call, lane, (part,) = self._stream_call, batch.lane, batch.slices

        def post(event: Any, delay: float) -> bool:
            return inbox.post(lane, stream, event, delay)

        call.begin()
        if not lane.is_dropped:
            if not stream.is_started and stream.failure is None:
                call.start(stream, post)
            if batch.event is not None:
                call.event(stream, batch.event, post)
            else:
                call.rows(stream, part.positions, batch.columns, post)
        is_over = (part.is_last or stream.is_ended) and inbox.try_end(lane, stream)
        if is_over:
            call.end(stream, is_cancelled=lane.is_dropped)
        return is_over

    def _opened(self, source: Stream) -> OpenStream:
        spec = self.stage.plan.spec
        is_same = spec.is_same_count and not spec.is_sink
        is_assumed = spec.is_count_assumed and not spec.is_sink
        return OpenStream(
            source,
            [
                Numbering(source, is_same_count=is_same, is_assumed=is_assumed)
                for _ in range(self._width)
            ],
        )

    def _emit(self, stream: OpenStream, is_over: bool) -> None:
        segments = []
        for given, numbering in zip(self._stream_call.given, stream.outputs, strict=True):
            positions, column = numbering.numbered(given)
            # Not what came in with this batch: an error may be passed on calls later.
            has_errors = any(buffer.error is not None for buffer in column)
            segments.append(Segment(numbering.stream, positions, [column], is_over, has_errors))
        if is_over or any(segment.positions for segment in segments):
            self._send(segments)

    def _send(self, segments: list[Segment]) -> None:
        self.stage.outbox.send([(segment,) for segment in segments])

    @property
    def _stream_call(self) -> StreamCall:
        assert isinstance(self.call, StreamCall)  # made by the stage for this kind
        return self.call

    @property
    def _width(self) -> int:
        return max(1, len(self.stage.plan.routes))
