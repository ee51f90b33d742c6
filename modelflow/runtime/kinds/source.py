"""Sources: units without inputs, which produce rows until the unit calls ``finish``.

A video source emits one frame per call: the rows 0, 1, 2, ... of a session with the node's name. A
request source opens a session for each request. It calls ``hold``, and its next call comes when its
listener sends an event.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.runtime.clock import Clock, Delayed
from modelflow.runtime.entry.submitter import WARN_AFTER, Submitter
from modelflow.runtime.queues.backpressure import Backpressure
from modelflow.runtime.session.segment import Batch, Columns, Span
from modelflow.runtime.session.session import Session
from modelflow.runtime.stages.call import Call, UnitCall
from modelflow.runtime.stages.kind import RunningKind
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.workers.worker import Worker
from modelflow.runtime.workers.worker_report import WorkerOwner
from modelflow.unit.kind import Source
from modelflow.unit.stream_context import Opening, StreamContext

logger = logging.getLogger("modelflow")


class SourceCall(UnitCall):
    """The call of a source."""

    def produce(self, context: StreamContext) -> Columns:
        """Runs the unit once; returns a column for each output port, all of the same length.

        For a source without outputs, returns one empty column.

        Raises:
            FlowUnitError: the source failed, or its outputs differ in length.
        """
        self.begin()
        try:
            self._run(context)
            lengths = {name: len(context.outputs[name]) for name in self._outputs}
            if len(set(lengths.values())) > 1:
                raise ValueError(f"gave {lengths} values; a source gives as many on every output")
        except BaseException as error:
            raise self._error(error, None) from error
        return [self._wrap_output(context.outputs[name]) for name in self._outputs] or [[]]

    def row(self, opening: Opening) -> list[Buffer]:
        """Returns the buffers of an item that opens a session, a buffer for each output."""
        return self._wrap_output([opening.values[name] for name in self._outputs])


class SourceWorker(Worker):
    """The worker of a source, which calls the unit until the unit has finished."""

    call: SourceCall
    session: Session
    """The session of the source; set by the scheduler before the flow starts."""
    submitter: Submitter
    """The submitter that admits the rows; set by the scheduler before the flow starts."""
    open_session: Callable[[], Session]
    """Creates a session for an item of the source; set by the scheduler before the flow starts."""

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        super().__init__(stage, number, owner, clock)
        self._node = stage.plan.name
        kind = stage.plan.unit.spec.kind
        self._is_opening = isinstance(kind, Source) and kind.opens_sessions
        self._state: dict[str, Any] = {}
        self._events: deque[Any] = deque()
        self._later: Delayed[Any] = Delayed(clock)
        self._is_held = False
        self._is_over = False
        self._reserved = 0
        self._has_event = threading.Condition()

    def begin(self) -> None:
        """Calls the unit's ``begin``, which starts listening; reports an error to the owner."""
        self._enter("open")
        try:
            self.call.unit.begin()
        except Exception as error:
            self._report(error, "open")
        self._leave()
        super().begin()

    def loop(self) -> None:
        """Calls the source until the unit has finished, or the flow drains or stops."""
        outbox = self.stage.outbox
        while self._wait_for_admission():
            if outbox.is_blocked():  # `admit` on other threads may have used the room
                self._wait_for_room()
            if not self.step():
                break
            self._wait_for_event()

    def wake(self) -> None:
        """Wakes a source that holds or waits for admission, because the flow drains or stops."""
        with self._has_event:
            self._has_event.notify_all()
        self.submitter.wake(self.session)

    def _post(self, event: Any, delay: float) -> bool:
        with self._has_event:
            is_ending = self._owner.is_draining and not self._reserved
            if self._is_over or self.session.is_cancelled or is_ending:
                return False
            if delay > 0:
                self._later.add(event, delay)
            else:
                self._events.append(event)
            self._has_event.notify_all()
            return True

    def _post_due(self) -> float | None:
        """Moves due events to the queue of events; returns the seconds until the next event."""
        self._events.extend(self._later.due())
        return self._later.remaining()

    def _is_waiting(self) -> bool:
        return self._is_held and not self._events and not self._is_ending()

    def _wait_for_event(self) -> None:
        if self._is_held:
            with self._has_event:
                self._stats.resting_since = self._clock.now()
                left = self._post_due()
                while self._is_waiting():
                    self._clock.wait(self._has_event, left)
                    left = self._post_due()
                self._stats.end_rest(self._clock.now())

    def _wait_for_admission(self) -> bool:
        start, has_warned, stats = self._clock.now(), False, self._stats
        while (backpressure := self._backpressure()) is not None and not self._is_ending():
            stats.blocked_since = start
            waited = self._clock.now() - start
            if not has_warned and waited >= WARN_AFTER:
                has_warned = True
                logger.warning("the source has waited for %.0f s: %s", waited, backpressure.reason)
            backpressure.wait(None if has_warned else WARN_AFTER - waited)
        stats.end_block(self._clock.now())
        return not self.session.is_cancelled

    def _backpressure(self) -> Backpressure | None:
        return self.submitter.backpressure_for_source(self.session, self._node, self._is_ending)

    def _is_ending(self) -> bool:
        return self._owner.is_draining or self.session.is_cancelled

    def try_step(self) -> bool:
        """Calls the source once, if rows are admitted or the source must end.

        Returns:
            False if the source was not called, or has finished.
        """
        with self._has_event:
            self._post_due()
        if self._is_waiting():
            return False
        if self._backpressure() is not None and not self._is_ending():
            return False
        return super().try_step()

    def step(self) -> bool:
        """Calls the source once, and sends the results on.

        Returns:
            False once the source has finished.
        """
        session = self.session
        if session.is_cancelled or session.progress.is_closed:
            return False
        columns: Columns = [[] for _ in self.stage.plan.routes or ("",)]
        # Requests that were reserved before the flow drains are still admitted.
        with self._has_event:
            while self._owner.is_draining and self._reserved and not session.is_cancelled:
                self._clock.wait(self._has_event, None)  # short, because `admit` does not wait
            is_last = self._is_over = self._owner.is_draining and not self._events
        if not is_last:
            columns, is_last = self._produce()
            if self._is_opening:
                columns = [[] for _ in columns]
        self._emit(columns, is_last)
        return not is_last

    def _produce(self) -> tuple[Columns, bool]:
        outputs = self.stage.plan.unit.spec.output_names
        session = self.session
        context = StreamContext(
            {},
            {name: [] for name in outputs},
            session.context,
            self._state,
            session.meta,
            self._post,
        )
        context.event = self._events.popleft() if self._events else None
        if self._is_opening:
            context.openings = []
            context.admission = self
        start = self._enter("process")
        try:
            columns, is_last = self.call.produce(context), context.is_finished
        except FlowUnitError as error:
            # A source that raises cannot go on. Its error is its last buffer.
            columns, is_last = [[Buffer.from_error(error)] for _ in outputs or ("",)], True
            self.call.failed, self.call.has_errors = 1, True
        opened = [(self.call.row(opening), opening) for opening in context.openings or ()]
        with self._has_event:  # `admit` counts on other threads
            self._is_held, self._is_over = context.is_held, is_last
            self._note((), len(columns[0]) + len(opened), start, columns)
        self._leave()
        if context.openings is not None:
            emitted = [(list(row), _EMITTED) for row in zip(*columns, strict=True)]
            self._begin_sessions([*emitted, *opened])
        return columns, is_last

    def _emit(self, columns: Columns, is_last: bool) -> None:
        session = self.session
        count = len(columns[0])
        first = session.progress.enter(self._node, count)
        if is_last:
            session.progress.close()
        if first is None:
            return
        span = Span(session.stream, range(first, first + count), is_last)
        self.stage.outbox.emit(Batch([span], columns, False), columns, self.call.has_errors)

    def call_of(self, calls: Sequence[UnitCall]) -> Call:
        """Returns the call of the source, and makes the call for rows of other threads."""
        self._opening = SourceCall(calls[0].unit, calls[0].plan)  # nothing reads its counters
        return super().call_of(calls)

    # -- called on other threads; see `Admission` -------------------------------------------------

    def reserve(self) -> bool:
        """See `Admission.reserve`."""
        with self._has_event:
            if self._is_over or self._is_ending():
                return False
            self._reserved += 1
            return True

    def release(self) -> None:
        """See `Admission.release`."""
        with self._has_event:
            self._reserved -= 1
            self._has_event.notify_all()

    def admit(self, openings: Sequence[Opening]) -> bool:
        """See `Admission.admit`."""
        if self._backpressure() is not None or self.stage.outbox.find_backpressure():
            return False
        start = self._clock.now()
        self._begin_sessions([(self._opening.row(opening), opening) for opening in openings])
        with self._has_event:
            self._note((), len(openings), start, None)
        return True

    def _begin_sessions(self, rows: Sequence[tuple[list[Buffer], Opening]]) -> None:
        """Sends items on, each as a complete session, with one lock and one wake-up for all."""
        spans: list[Span] = []
        columns: Columns = [[] for _ in self.stage.plan.routes]
        has_errors = False
        for row, opening in rows:
            session = self._session_of(row, opening)
            if session is not None:
                spans.append(Span(session.stream, range(1), True))
                for column, buffer in zip(columns, row, strict=True):
                    column.append(buffer)
                    has_errors = has_errors or buffer.error is not None
        if spans:
            self.stage.outbox.emit(Batch(spans, columns, has_errors), columns, has_errors)

    def _session_of(self, row: Sequence[Buffer], opening: Opening) -> Session | None:
        """Creates a session and counts its only item; returns None if the flow is stopping."""
        session = self.open_session()
        session.context.update(opening.context)
        if opening.on_end is not None:
            session.on_end(opening.on_end)
        if opening.deadline is not None:
            session.has_deadlines = True
            for buffer in row:
                buffer._deadline = self._clock.now() + opening.deadline
        if session.progress.enter(self._node, 1) is None:
            return None
        session.progress.close()
        return session


# The opening of an item that the source has emitted without context, callback or deadline.
_EMITTED = Opening({}, {}, None, None)

KIND = RunningKind(call=SourceCall, worker=SourceWorker, is_ordered=False, is_lendable=False)
