"""The reports of a worker: times, errors and its position, and their receivers.

Example: the worker of node "resize" has called its unit for five rows, and two of them failed. Its
counters increase by one call and two errors. The watchers of the sessions get a report. If the flow
is recorded, the trace buffer gets a slice.
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
    """The owner of workers, which receives reports from any worker's thread."""

    is_draining: bool
    """True if no new work is accepted and sources must end."""
    is_watched: bool
    """True if a session may have a `Watcher`."""

    def on_open(self) -> None:
        """Receives the report that a worker has opened its units."""

    def wait_until_all_open(self) -> bool:
        """Waits until all workers have opened their units; False if the flow ends instead."""

    def on_begin(self) -> None:
        """Receives the report that a worker has begun."""

    def cancel(self, session: "Session") -> None:
        """Cancels a session whose rows are lost."""

    def on_failure(self, error: FlowUnitError) -> None:
        """Receives an error that ends the flow: of the opening or closing of a unit, or a bug."""


class WorkerReport:
    """The part of a worker that the watchdog, statistics, recordings and the owner read."""

    stage: Stage
    """The stage of the worker."""
    number: int
    """The index of the worker in its stage."""
    phase: str
    """The current activity: ``open``, ``process``, ``close``, or ``idle``."""
    thread_id: int
    """The identifier of the thread that runs the worker; 0 before the start."""
    ring: TraceBuffer | None
    """The trace buffer of the worker, or None without a recording."""
    track: str
    """The name of the worker in a recording: the name of its stage and its number."""
    call: Call
    """The call of the unit, set when the unit is open."""

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        """Starts as an idle worker; see `Worker`."""
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
        """The unit that the worker opens, calls or closes now, or did last."""
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
        """Reports a processed batch to the watchers of its sessions and to the trace buffer."""
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
        """Returns the call times of the units for the latest batch."""
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
        self._stats.size = 0
        self._stats.busy_since = now = self._clock.now()
        return now

    def _leave(self) -> None:
        self._stats.busy_since = None
        self.phase = "idle"

    def _note_errors(self, results: Sequence[Sequence[Any]]) -> None:
        """Counts the rows of the last call that passed by the unit, or failed in the unit."""
        self._stats.passed += self.call.passed
        self.call.passed = 0
        if self.call.failed:
            failures = failures_of(results, self.stage.plan.name)
            self._stats.note_failures(*failures, self._clock.now())

    def _note(
        self,
        spans: Sequence[Span],
        size: int,
        start: float,
        results: Sequence[Sequence[Any]] | None,
        waited: float = -1.0,
    ) -> float:
        """Counts a call for ``size`` rows that began at ``start``, and returns the end time.

        Args:
            spans: The streams of the rows.
            size: The number of rows.
            start: The time of the call, by the clock.
            results: The results, or None for a call of another thread that has no failure.
            waited: The seconds that the oldest row had waited. Negative if not known.
        """
        now, errors, begun = self._clock.now(), 0, -1.0
        if results is not None:
            errors, begun = self.call.failed, start
        self._stats.count(size, errors, now - start, waited, begun)
        if results is not None:
            self._note_errors(results)
        ring = self.ring  # read once, because a recording may end meanwhile
        if ring is not None:
            arrived = start - waited if waited >= 0.0 else 0.0
            node = self.stage.plan.name
            ring.note(slice_of(node, start, now, size, arrived, spans, errors))
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
        """Returns an error that names the node and the position of a worker that hangs."""
        unit = self.at
        message = f"did not return within {seconds:.3g} s of being told to stop{self.position()}"
        return FlowUnitError(message, node=unit.node, unit=unit.spec.name, phase=self.phase)

    def position(self) -> str:
        """Returns ``"; it is at file:line in function"`` for the current code of the thread.

        Returns ``""`` if the thread has ended.
        """
        position = find_position(self.thread_id)
        return position and f"; it is at {position}"
