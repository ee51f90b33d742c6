"""What a worker reports of its work: times, errors, where it stands; and to whom.

The worker of node "resize" has called its unit for five rows, two of which failed: its counters
have one call more and two errors, whoever watches the rows' sessions is told, and if the flow is
recorded a slice is in its trace buffer.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.session.segment import Batch, Span
from modelflow.runtime.stages.call import Call
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.workers.session_watch import CallTime, failures_of, tell
from modelflow.runtime.workers.stacks import find_position
from modelflow.runtime.workers.trace_buffer import BLOCKED, Slice, TraceBuffer, slice_of

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


class WorkerOwner(Protocol):
    """What a worker tells its owner; each call may come from any worker's thread."""

    is_draining: bool
    """No new work is taken: sources end."""
    is_watched: bool
    """A session may have a `Watcher`."""

    def on_open(self) -> None:
        """A unit is open."""

    def wait_until_all_open(self) -> bool:
        """Waits until every worker's unit is open; False if the flow ends instead."""

    def on_begin(self) -> None:
        """A unit has begun."""

    def cancel(self, session: "Session") -> None:
        """Ends a session whose rows are lost."""

    def on_failure(self, error: FlowUnitError) -> None:
        """A unit did not open or close, or our own code failed: the flow must end."""


class WorkerReport:
    """The side of a worker that others look at: the watchdog, statistics, recordings, the owner."""

    stage: Stage
    """The stage that it works for."""
    number: int
    """Its place among the stage's workers."""
    phase: str
    """What it is doing: ``open``, ``process``, ``close``, or ``idle``."""
    thread_id: int
    """The thread that runs it, once one does."""
    ring: TraceBuffer | None
    """Where it notes what it does; None: nobody records."""
    track: str
    """Its name there: that of its stage, and its number."""
    call: Call
    """What calls the unit, once it is open."""

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        """Begins with nothing done; see `Worker`."""
        self.stage = stage
        self.number = number
        self.phase = "idle"
        self.thread_id = 0
        self.ring = None
        self.track = f"{stage.plan.name}/{number}"
        self._at = stage.plan.unit
        self._stats = stage.figures.workers[number]
        self._owner = owner
        self._clock = clock
        self._device = stage.device_of(number)

    @property
    def at(self) -> UnitPlan:
        """The unit that it opens, calls or closes, or did last."""
        return self.call.plan if self.phase == "process" else self._at

    @property
    def busy_since(self) -> float | None:
        """The clock's time at which the phase began; None while idle."""
        return self._stats.busy_since

    def _record(
        self,
        batch: Batch,
        results: Sequence[Sequence[Any]],
        start: float,
        end: float,
        arrived: float,
        *,
        is_kept: bool,
    ) -> None:
        """Tells whoever watches its sessions, or records the flow, of a batch that was called."""
        ring, is_told = self.ring, False
        for span in batch.spans:
            if span.stream.session.watcher is not None:
                tell(batch.spans, results, self._laps(start, end), self._device, self.track)
                is_told = True
                break
        if ring is not None and (is_told or (is_kept and ring.is_due(end - start))):
            size, errors = batch.size, self.call.failed
            for unit, begin, finish in self._laps(start, end):
                ring.note(slice_of(unit.node, begin, finish, size, arrived, batch.spans, errors))

    def _laps(self, start: float, end: float) -> Sequence[CallTime]:
        """Returns which unit was called when for the batch that was called just now."""
        return (CallTime(self.stage.plan.unit, start, end),)

    def _wait_for_room(self) -> None:
        self._stats.blocked_since = start = self._clock.now()
        try:
            self.stage.outbox.wait_for_room()
        finally:
            now = self._clock.now()
            self._stats.end_block(now)
            ring = self.ring
            if ring is not None and (now - start >= ring.short or next(ring.waits) > 0):
                ring.note(Slice(BLOCKED, start, now))

    def _enter(self, phase: str) -> float:
        self.phase = phase
        self._stats.busy_since = now = self._clock.now()
        return now

    def _leave(self) -> None:
        self._stats.busy_since = None
        self.phase = "idle"

    def _note_failures(self, results: Sequence[Sequence[Any]]) -> None:
        failures = failures_of(results, self.stage.plan.name)
        self._stats.note_failures(*failures, self._clock.now())

    def _note(
        self,
        spans: Sequence[Span],
        size: int,
        start: float,
        results: Sequence[Sequence[Any]],
        waited: float = -1.0,
    ) -> float:
        """Counts a call for ``size`` rows that began at ``start``; returns when it has ended."""
        now = self._clock.now()
        self._stats.count(size, self.call.failed, now - start, waited)
        if self.call.failed:
            self._note_failures(results)
        if self.ring is not None:
            arrived = start - waited if waited >= 0.0 else 0.0
            node, errors = self.stage.plan.name, self.call.failed
            self.ring.note(slice_of(node, start, now, size, arrived, spans, errors))
        return now

    def _report(self, error: BaseException, phase: str) -> None:
        unit = self.at
        self._leave()
        if not isinstance(error, FlowUnitError):
            error = FlowUnitError.from_exception(
                error, node=unit.node, unit=unit.spec.name, phase=phase
            )
        self._owner.on_failure(error)

    def describe_hung(self, seconds: float) -> FlowUnitError:
        """Describes a worker that does not come back: its node, and where it stands."""
        unit = self.at
        message = f"did not return within {seconds:.3g} s of being told to stop{self.position()}"
        return FlowUnitError(message, node=unit.node, unit=unit.spec.name, phase=self.phase)

    def position(self) -> str:
        """Returns ``"; it is at file:line in function"`` of the code that the thread is in."""
        position = find_position(self.thread_id)
        return position and f"; it is at {position}"
