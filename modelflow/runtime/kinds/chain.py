"""Chains: normal units that run as one stage, each called with the results of the unit before.

Example: "decode" and "resize" are a chain, and a batch has five rows. "decode" is called with five
buffers, then "resize" with the five results. "resize" is not called for a row that is in error
after "decode", as if "resize" were a stage of its own. A row gets an error if "decode" fails for
the row, if its deadline passes, or if its session is cancelled meanwhile.
"""

from collections.abc import Sequence

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.normal import NormalCall
from modelflow.runtime.session.segment import Batch, Columns, Span
from modelflow.runtime.stages.call import WAIT, BatchCall, StreamOf, UnitCall
from modelflow.runtime.stages.kind import RunningKind
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.worker_slot import Handoff
from modelflow.runtime.workers.deadlines import carry, deadlines_of, expire
from modelflow.runtime.workers.session_watch import CallTime, failures_of
from modelflow.runtime.workers.worker import Worker


class ChainCall(BatchCall):
    """A call that consists of the calls of several units."""

    has_deadlines: bool
    """True if a row of the batch may have a deadline."""
    is_lapped: bool
    """True if the times of the units' calls are recorded in ``laps``."""
    spans: Sequence[Span]
    """The spans of the batch during the call, otherwise empty."""
    laps: list[CallTime]
    """The times of the units' calls for the batch, if recorded."""

    def __init__(
        self, calls: Sequence[BatchCall], stats: Sequence[WorkerStats], clock: Clock
    ) -> None:
        """Creates the call of a chain.

        Args:
            calls: The calls of the units.
            stats: The counters of the units.
            clock: The clock of deadlines and times.
        """
        self._links = list(zip(calls, stats, strict=True))
        self._clock = clock
        self.plan = calls[0].plan
        self.failed = 0
        self.has_errors = self.has_deadlines = self.is_lapped = False
        self.spans = ()
        self.laps = []

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs all units over a batch, in order; see `BatchCall.process`."""
        failed, self.laps = 0, []
        for call, stats in self._links:
            self.plan = plan = call.plan
            if plan.sources:
                columns = [columns[source] for source in plan.sources]
            for span in self.spans:
                if span.stream.session.is_cancelled:
                    columns, has_errors = _give_up(columns, plan, stream_of), True
                    break
            deadlines = None
            if self.has_deadlines:
                deadlines = deadlines_of(columns)
                late = expire(columns, deadlines, self._clock.now(), plan, stream_of, stats)
                columns, has_errors = late or columns, has_errors or late is not None
            stats.size = len(columns[0])
            stats.busy_since = start = self._clock.now()
            columns = call.process(columns, has_errors, stream_of)
            end = self._clock.now()
            stats.count(len(columns[0]), call.failed, end - start, start=start)
            stats.busy_since = None
            if call.passed:
                stats.passed, call.passed = stats.passed + call.passed, 0
            if call.failed:
                stats.note_failures(*failures_of(columns, plan.node), end)
            if self.is_lapped:
                self.laps.append(CallTime(plan, start, end))
            has_errors = has_errors or call.has_errors
            failed += call.failed
            if deadlines is not None:
                carry(deadlines, columns)
        self.failed, self.has_errors = failed, has_errors
        return columns


class ChainWorker(Worker):
    """The worker of a chain, with an instance of each unit."""

    def call_of(self, calls: Sequence[UnitCall]) -> ChainCall:
        """Returns the call of the chain."""
        links = [call for call in calls if isinstance(call, NormalCall)]
        stats = [workers[self.number] for workers in self.stage.figures.units]
        self._chain = ChainCall(links, stats, self._clock)
        return self._chain

    def run(self, batch: Batch, handoff: Handoff | None = None) -> None:
        """Calls the units for a batch and sends the results on; does not wait."""
        self._chain.has_deadlines = False
        self._chain.is_lapped = self._owner.is_watched or self.ring is not None
        self._chain.spans = batch.spans
        super().run(batch, handoff)
        self._chain.spans = ()  # an idle worker must not keep a session in memory

    def _laps(self, start: float, end: float) -> Sequence[CallTime]:  # noqa: ARG002 - a lap for each unit
        return self._chain.laps

    def _expire(self, batch: Batch, deadlines: Sequence[float | None]) -> bool:  # noqa: ARG002
        self._chain.has_deadlines = True  # `ChainCall` checks before each unit
        return False


def _give_up(columns: Columns, plan: UnitPlan, stream_of: StreamOf) -> Columns:
    """Puts an error in the place of every row whose session was cancelled.

    Units are not called for rows in error. So no work is done for results that nobody reads.
    """
    first = list(columns[0])
    for row, buffer in enumerate(first):
        stream = stream_of(row)
        if stream is not None and stream.session.is_cancelled and buffer.error is None:
            error = FlowUnitError.from_exception(
                Cancelled("its session was cancelled before the unit was called"),
                node=plan.node,
                unit=plan.spec.name,
                phase=WAIT,
                session=stream.session.name,
            )
            first[row] = Buffer.from_error(error, buffer.meta)
    return [first, *columns[1:]]


KIND = RunningKind(call=NormalCall, worker=ChainWorker)
