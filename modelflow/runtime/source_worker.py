"""The one thread of a source's stage."""

import time

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.flowunit.unit import Context
from modelflow.runtime.entrance import Entrance
from modelflow.runtime.segment import Batch, Columns, Slice
from modelflow.runtime.session import Session
from modelflow.runtime.worker import Worker

__all__ = ["SourceWorker"]


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
            self.call.failed, self.call.has_errors = 1, True
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
        self.stage.outbox.emit(Batch([part], columns, False), columns, self.call.has_errors)
