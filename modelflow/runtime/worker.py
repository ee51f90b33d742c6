"""One thread of a stage: take a batch, call the unit, emit."""

import sys
import threading
import time
import traceback
from typing import Protocol

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.flowunit.unit import Context
from modelflow.runtime.call import UnitCall
from modelflow.runtime.clock import Clock
from modelflow.runtime.entrance import Entrance
from modelflow.runtime.segment import Batch, Columns, Slice
from modelflow.runtime.session import Session
from modelflow.runtime.stage import Stage

__all__ = ["SourceWorker", "Worker", "WorkerOwner"]


class WorkerOwner(Protocol):
    """What a worker tells its owner; each call may come from any worker's thread."""

    is_draining: bool

    def opened(self, worker: "Worker") -> None:
        """The unit is open."""

    def wait_until_all_open(self) -> None:
        """Waits until every worker's unit is open, or the flow ends."""

    def failed(self, error: FlowUnitError) -> None:
        """The unit did not open or close, or our own code failed: the flow must end."""


class Worker:
    """The life of one thread of a stage, with its unit instance.

    Attributes:
        stage: Whose worker this is.
        number: Its place among them.
        phase: What it is doing: ``open``, ``process``, ``close``, or ``idle``.
        busy_since: The clock's time at which the phase began; None while idle.
        thread_id: The thread that runs it, once it does.
    """

    call: UnitCall

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        self.stage = stage
        self.number = number
        self.phase = "idle"
        self.busy_since: float | None = None
        self.thread_id = 0
        self._stats = stage.stats[number]
        self._owner = owner
        self._clock = clock
        self._device = stage.device_of(number)

    # -- life -----------------------------------------------------------------------------------

    def main(self) -> None:
        """Opens the unit, works until the flow ends, closes the unit: what the thread runs."""
        if not self.try_open():
            return
        try:
            self._owner.wait_until_all_open()
            self.loop()
        except BaseException as error:
            self._report(error, "process")
        self.try_close()

    def try_open(self) -> bool:
        """Opens the unit; an error goes to the owner."""
        self.thread_id = threading.get_ident()
        self._enter("open")
        try:
            unit = self.stage.open_unit(self._device)
        except BaseException as error:
            self._report(error, "open")
            return False
        self._leave()
        plan = self.stage.plan
        self.call = UnitCall(
            unit,
            plan.spec,
            plan.node,
            inputs=plan.inputs,
            consumers=[len(route) for route in plan.routes],
            is_exception_visible=plan.is_exception_visible,
        )
        self._owner.opened(self)
        return True

    def try_close(self) -> None:
        """Closes the unit; an error goes to the owner."""
        self._enter("close")
        try:
            self.stage.close_unit(self.call.unit, self._device)
        except BaseException as error:
            self._report(error, "close")
        self._leave()

    def try_step(self) -> bool:
        """Does one batch of what is ready, without waiting; False if there was none."""
        try:
            return self.step()
        except Exception as error:
            self._report(error, "process")
            return False

    def loop(self) -> None:
        """Works until the inbox is closed."""
        inbox, outbox = self.stage.inbox, self.stage.outbox
        is_ordered = self.stage.is_ordered
        while True:
            if is_ordered:
                outbox.wait_for_order()
            batch = inbox.take()
            if batch is None:
                return
            self.run(batch)
            outbox.wait_for_room()

    def step(self) -> bool:
        """Does one batch of what is ready; False if there was none."""
        batch = self.stage.inbox.take_nowait()
        if batch is not None:
            self.run(batch)
        return batch is not None

    def run(self, batch: Batch) -> None:
        """Calls the unit for a batch and sends the results on; does not wait."""
        size = len(batch.columns[0])
        has_errors = batch.has_errors
        if size == 0:
            results: Columns = [[] for _ in self.stage.plan.routes or ("",)]
        else:
            for part in batch.slices:
                if part.stream.session.deadlines:
                    has_errors = self._expire(batch) or has_errors
                    break
            start = time.perf_counter()
            self._enter("process")
            results = self.call.process(batch.columns, has_errors, batch.session_of)
            self._leave()
            failed = self.call.failed
            has_errors = has_errors or failed > 0
            self._stats.count(size, failed, time.perf_counter() - start)
        self.stage.outbox.emit(batch, results, has_errors)

    def _expire(self, batch: Batch) -> bool:
        """Puts an error in the place of every row whose deadline has passed."""
        now, row, has_expired = self._clock.now(), 0, False
        columns = [list(column) for column in batch.columns]
        for part in batch.slices:
            deadlines = part.stream.session.deadlines
            for position in part.positions:
                if deadlines.get(position, now) < now and columns[0][row].error is None:
                    columns[0][row] = self._expired(columns[0][row], part.stream.session)
                    has_expired = True
                row += 1
        batch.columns = columns
        return has_expired

    def _expired(self, buffer: Buffer, session: Session) -> Buffer:
        message = "its deadline passed before the unit was called"
        error = FlowUnitError.from_exception(
            DeadlineExceeded(message),
            node=self.stage.plan.node,
            unit=self.stage.plan.spec.name,
            session=session.name,
        )
        return Buffer.from_error(error, buffer.meta)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self.busy_since = self._clock.now()

    def _leave(self) -> None:
        self.busy_since = None
        self.phase = "idle"

    # -- reports --------------------------------------------------------------------------------

    def _report(self, error: BaseException, phase: str) -> None:
        self._leave()
        plan = self.stage.plan
        if not isinstance(error, FlowUnitError):
            error = FlowUnitError.from_exception(
                error, node=plan.node, unit=plan.spec.name, phase=phase
            )
        self._owner.failed(error)

    def hung_error(self, seconds: float) -> FlowUnitError:
        """Describes a worker that does not come back: its node, and where it stands."""
        plan = self.stage.plan
        message = f"did not return within {seconds:g} s of being told to stop{self.position()}"
        return FlowUnitError(message, node=plan.node, unit=plan.spec.name, phase=self.phase)

    def position(self) -> str:
        """Returns ``"; it is at file:line in function"`` of the code that the thread is in."""
        frame = sys._current_frames().get(self.thread_id)
        if frame is None:
            return ""
        where = traceback.extract_stack(frame)[-1]
        return f"; it is at {where.filename}:{where.lineno} in {where.name}"


class SourceWorker(Worker):
    """The worker of a source: it produces until the unit says that it is done."""

    session: Session
    entrance: Entrance

    def loop(self) -> None:
        """Produces until the source is done, or the flow drains or stops."""
        while self._wait_for_admission() and self.step():
            self.stage.outbox.wait_for_room()

    def try_step(self) -> bool:
        """Produces once, if the source is admitted now; False if not, or if it is over."""
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
        is_last = self._owner.is_draining
        columns: Columns = [[] for _ in self.stage.plan.routes]
        if not is_last:
            columns, is_last = self._produce()
        self._emit(columns, is_last)
        return not is_last

    def _produce(self) -> tuple[Columns, bool]:
        outputs = [port.name for port in self.stage.plan.spec.outputs]
        session = self.session
        context = Context({}, {name: [] for name in outputs}, session.context, session.state)
        start = time.perf_counter()
        self._enter("process")
        try:
            columns, is_last = self.call.produce(context), context.is_finished
        except FlowUnitError as error:
            # A source that raises has nothing to go on from: its error is its last buffer.
            columns, is_last = [[Buffer.from_error(error)] for _ in outputs], True
            self.call.failed = 1
        self._leave()
        rows = len(columns[0]) if columns else 0
        self._stats.count(rows, self.call.failed, time.perf_counter() - start)
        return columns, is_last

    def _emit(self, columns: Columns, is_last: bool) -> None:
        session = self.session
        count = len(columns[0])
        if is_last:
            session.is_closed = True
        first = self.entrance.enter(session, self.stage.plan.node, count)
        if first is None:
            return
        part = Slice(session.stream, range(first, first + count), is_last, None)
        self.stage.outbox.emit(Batch([part], columns, False), columns, self.call.failed > 0)
