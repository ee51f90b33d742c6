"""The one thread of a source's stage."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.flowunit.unit import StreamContext
from modelflow.runtime.clock import Clock
from modelflow.runtime.entrance import Entrance
from modelflow.runtime.segment import Batch, Columns, Slice
from modelflow.runtime.session import Session
from modelflow.runtime.stage import Stage
from modelflow.runtime.timeline import Timeline
from modelflow.runtime.worker import Worker, WorkerOwner

__all__ = ["SourceWorker"]

# The meta of a buffer that begins a session: see `FlowUnitSpec.is_session_opened`.
TIME_OUT = "time_out"
SESSION = "session"
ON_SESSION_END = "on_session_end"


class SourceWorker(Worker):
    """The worker of a source: it produces until the unit says that it is done."""

    session: Session
    entrance: Entrance
    open_session: Callable[[], Session]

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        super().__init__(stage, number, owner, clock)
        self._events: deque[Any] = deque()
        self._later: Timeline[Any] = Timeline(clock)
        self._is_held = False
        self._is_over = False
        self._has_event = threading.Condition()

    def loop(self) -> None:
        """Produces until the source is done, or the flow drains or stops."""
        while self._wait_for_admission() and self.step():
            self.stage.outbox.wait_for_room()
            self._wait_for_event()

    def wake(self) -> None:
        """Wakes a source that holds: the flow drains or stops."""
        with self._has_event:
            self._has_event.notify_all()

    def _post(self, event: Any, delay: float) -> bool:
        with self._has_event:
            if self._is_over or self.session.is_cancelled or self._owner.is_draining:
                return False
            if delay > 0:
                self._later.add(event, delay)
            else:
                self._events.append(event)
            self._has_event.notify_all()
            return True

    def _post_due(self) -> float | None:
        """Hands out the delayed events that are due; returns the seconds until the next one."""
        self._events.extend(self._later.due())
        return self._later.left()

    def _is_waiting(self) -> bool:
        is_ending = self._owner.is_draining or self.session.is_cancelled
        return self._is_held and not self._events and not is_ending

    def _wait_for_event(self) -> None:
        if self._is_held:
            with self._has_event:
                left = self._post_due()
                while self._is_waiting():
                    self._clock.wait(self._has_event, left)
                    left = self._post_due()

    def try_step(self) -> bool:
        """Produces once, if the source is admitted now; False if not, or if it is over."""
        with self._has_event:
            self._post_due()
        if self._is_waiting():
            return False
        if self.entrance.admit(self.session, self.stage.plan.node) is not None:
            return False
        return super().try_step()

    def _wait_for_admission(self) -> bool:
        node, session = self.stage.plan.node, self.session
        while (blocker := self.entrance.admit(session, node)) is not None:
            if self._owner.is_draining or session.is_cancelled:
                break
            blocker.wait(None)
        return not session.is_cancelled

    def step(self) -> bool:
        """Calls the source once and sends on what it gave; False once it is over."""
        session = self.session
        if session.is_cancelled or session.is_closed:
            return False
        columns: Columns = [[] for _ in self.stage.plan.routes]
        # What was accepted before the flow drains (a request) is still worked on.
        with self._has_event:
            is_last = self._is_over = self._owner.is_draining and not self._events
        if not is_last:
            columns, is_last = self._produce()
        self._emit(columns, is_last)
        return not is_last

    def _produce(self) -> tuple[Columns, bool]:
        outputs = [port.name for port in self.stage.plan.spec.outputs]
        session = self.session
        context = StreamContext(
            {},
            {name: [] for name in outputs},
            session.context,
            session.state,
            session.stream.meta,
            self._post,
        )
        context.event = self._events.popleft() if self._events else None
        start = time.perf_counter()
        self._enter("process")
        try:
            columns, is_last = self.call.produce(context), context.is_finished
        except FlowUnitError as error:
            # A source that raises has nothing to go on from: its error is its last buffer.
            columns, is_last = [[Buffer.from_error(error)] for _ in outputs], True
            self.call.failed, self.call.has_errors = 1, True
        self._leave()
        with self._has_event:
            self._is_held, self._is_over = context.is_held, is_last
        rows = len(columns[0]) if columns else 0
        self._stats.count(rows, self.call.failed, time.perf_counter() - start)
        return columns, is_last

    def _emit(self, columns: Columns, is_last: bool) -> None:
        session = self.session
        if self.stage.plan.spec.is_session_opened:
            self._open_sessions(columns)
            columns = [[] for _ in columns]
        count = len(columns[0])
        if is_last:
            session.is_closed = True
        first = self.entrance.enter(session, self.stage.plan.node, count)
        if first is None:
            return
        part = Slice(session.stream, range(first, first + count), is_last, None)
        self.stage.outbox.emit(Batch([part], columns, False), columns, self.call.has_errors)

    def _open_sessions(self, columns: Columns) -> None:
        """Sends each row on as a whole session."""
        node = self.stage.plan.node
        for row in zip(*columns, strict=True):
            session = self.open_session()
            context = row[0].get(SESSION)
            if context is not None:
                session.context.update(context)
                del row[0].meta[SESSION]
            callback = row[0].get(ON_SESSION_END)
            if callback is not None:
                session.on_end(callback)
                del row[0].meta[ON_SESSION_END]
            due = row[0].get(TIME_OUT)
            if due is not None:
                session.deadlines[0] = self._clock.now() + due
            session.is_closed = True
            if self.entrance.enter(session, node, 1) is None:
                continue  # the flow is being stopped
            part = Slice(session.stream, range(1), True, None)
            cells = [[cell] for cell in row]
            self.stage.outbox.emit(Batch([part], cells, False), cells, self.call.has_errors)
