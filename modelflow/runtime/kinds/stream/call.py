"""Calls of a stream unit: its hooks, its rows, its events.

Example: a batch has the rows 4, 5, 6 of a stream that is new to the unit::

    method     calls of the unit                if row 5 is in error
    start      stream_start                     stream_start
    rows       process(4 5 6)                   process(4), process(6)
    end        stream_end, if the stream ends   stream_end, if the stream ends

`StreamCall.given` collects the results of all calls for the batch.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.kinds.stream.session_queue import OpenStream
from modelflow.runtime.session.segment import Columns
from modelflow.runtime.stages.call import UnitCall, claim
from modelflow.unit.stream_context import StreamContext

logger = logging.getLogger("modelflow")

Post = Callable[[Any, float], bool]


class StreamCall(UnitCall):
    """The calls of a stream unit, with the results of all calls for one batch."""

    given: Columns
    """The results without positions, a column for each output. A sink has a single column."""
    _is_loss_noted = False

    def begin(self) -> None:
        """Resets the results and counters before a batch."""
        super().begin()
        self.given = [[] for _ in self._outputs or ("",)]

    def start(self, stream: OpenStream, post: Post) -> None:
        """Calls ``stream_start``; an exception becomes the error of every buffer."""
        context = self._stream_context(stream, post)
        try:
            self.unit.stream_start(context)
            self._take(context, stream)
        except BaseException as error:
            claim(error)
            stream.failure = error
        else:
            stream.is_started = True

    def rows(
        self, stream: OpenStream, positions: Sequence[int], columns: Columns, post: Post
    ) -> None:
        """Calls the unit for the rows of a batch; rows in error are passed on without a call."""
        good: list[tuple[Buffer, ...]] = []
        for position, cells in zip(positions, zip(*columns, strict=True), strict=True):
            is_bad = any(cell.error is not None for cell in cells)
            if is_bad and not self._is_exception_visible:
                self._call(stream, good, post)
                good = []
                self.passed += 1
                self._pass(stream, position, cells)
                continue
            for numbering in stream.outputs:
                numbering.owe(position, [Buffer()] if is_bad else cells, self._inherits_meta)
            good.append(cells)
        self._call(stream, good, post)

    def event(self, stream: OpenStream, event: Any, post: Post) -> None:
        """Calls the unit without rows, for an event."""
        if stream.failure is not None:
            return
        context = self._stream_context(stream, post)
        context.event = event
        self._process(context, stream, 1)

    def end(self, stream: OpenStream, *, is_cancelled: bool) -> None:
        """Calls ``stream_end``; with `Count.SAME`, missing results become errors."""
        error = None if stream.is_failure_given else stream.failure
        if stream.is_started:
            context = self._stream_context(stream, _refuse)
            context.is_cancelled = is_cancelled
            try:
                self.unit.stream_end(context)
                self._take(context, stream)
            except BaseException as raised:
                claim(raised)
                error = raised
        if not self._give_owed(stream, error) and error is not None:
            self._fail(error, stream, 1)

    def _give_owed(self, stream: OpenStream, error: BaseException | None) -> bool:
        """With `Count.SAME`, adds an error for each missing result.

        Returns:
            True if a result was missing.
        """
        is_short = False
        names = self._outputs or ("",)
        for given, numbering, name in zip(self.given, stream.outputs, names, strict=True):
            missing = numbering.owed - len(given) if numbering.is_same_count else 0
            if missing > 0:
                is_short = True
                message = (
                    f"ended {missing} buffers short on output {name!r}; a stream unit with "
                    "Count.SAME gives one for each"
                )
                bad = Buffer.from_error(self._error(error or ValueError(message), stream.stream))
                given.extend(bad.twin() for _ in range(missing))
                self._count_failed(missing)
        return is_short

    # -- one call -------------------------------------------------------------------------------

    def _call(self, stream: OpenStream, rows: list[tuple[Buffer, ...]], post: Post) -> None:
        if not rows:
            return
        if stream.failure is not None:
            stream.is_failure_given = True
            self._fail(stream.failure, stream, len(rows))
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        if self._in_place:
            columns = self._writable(columns)
        context = self._stream_context(stream, post)
        context.inputs = dict(zip(self.inputs, columns, strict=True))
        # All outputs have the same `Count`.
        if self._inherits_meta and not stream.outputs[0].is_same_count:
            stream.inputs.begin(buffer for column in columns for buffer in column)
        is_failed = self._process(context, stream, len(rows))
        stream.inputs.end()
        if not self._outputs and not is_failed:
            self.given[0] += columns[0]

    def _process(self, context: StreamContext, stream: OpenStream, size: int) -> bool:
        try:
            self._run(context)
            self._take(context, stream)
        except BaseException as error:
            self._fail(error, stream, size)
            return True
        finally:
            stream.is_held = context.is_held
        return False

    def _take(self, context: StreamContext, stream: OpenStream) -> None:
        """Wraps and stores the results of a call.

        Raises:
            ValueError: with `Count.SAME`, the unit gave more results than it got rows.
        """
        for name, given, numbering in zip(self._outputs, self.given, stream.outputs, strict=False):
            new = len(context.outputs[name])
            if numbering.is_same_count and new + len(given) > numbering.owed:
                raise ValueError(
                    f"gave {new} values on output {name!r} for {numbering.owed - len(given)} "
                    "inputs without a result; a stream unit with Count.SAME gives one for each"
                )
        for name, given, numbering in zip(self._outputs, self.given, stream.outputs, strict=False):
            buffers = self._wrap_output(context.outputs[name])
            if self._inherits_meta and not numbering.is_same_count:
                for buffer in buffers:
                    self._note_lost(stream.inputs.give(buffer))
            given.extend(buffers)

    def _note_lost(self, keys: set[str]) -> None:
        """Warns once per instance that images lose meta here, such as the times of a video."""
        if keys and not self._is_loss_noted:
            self._is_loss_noted = True
            logger.warning(
                "node %r: the unit gives new images without Count.SAME: "
                "they lose the meta %s of its inputs; declare kind=Stream(Count.SAME), or give "
                "modelflow.image.like(frame, array)",
                self.plan.node,
                ", ".join(map(repr, sorted(keys))),
            )

    def _pass(self, stream: OpenStream, position: int, cells: Sequence[Buffer]) -> None:
        bad = next(cell for cell in cells if cell.error is not None)
        for given, numbering in zip(self.given, stream.outputs, strict=True):
            numbering.owe(position, cells)
            if not numbering.is_same_count:
                given.append(bad.twin())

    def _fail(self, error: BaseException, stream: OpenStream, size: int) -> None:
        """Adds an error for each result that a failed call did not give."""
        self._count_failed(size)
        bad = Buffer.from_error(self._error(error, stream.stream))
        for given, numbering in zip(self.given, stream.outputs, strict=True):
            room = numbering.owed - len(given) if numbering.is_same_count else size
            given.extend(bad.twin() for _ in range(min(size, room)))
            if room <= 0:  # no row waits for a result, so no result can carry the error
                session = stream.stream.session
                session.progress.record_errors([bad])
                session.tell_errors([bad])

    def _stream_context(self, stream: OpenStream, post: Post) -> StreamContext:
        inputs: dict[str, list[Buffer]] = {name: [] for name in self.inputs}
        outputs: dict[str, list[Any]] = {name: [] for name in self._outputs}
        session, meta = stream.stream.session, stream.outputs[0].stream.meta
        return StreamContext(inputs, outputs, session.context, stream.state, meta, post)


def _refuse(event: Any, delay: float) -> bool:  # noqa: ARG001 - the stream is over
    return False
