"""A thread of a stage: takes batches, calls the unit, emits results, and waits for room.

Example: a worker of node "resize" with ``batch_size=8`` finds five rows of session A in its inbox.
It calls the unit once with five buffers. The five results go to the next stage as one segment.
"""

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelflow.runtime.clock import Clock
from modelflow.runtime.session.segment import Batch, Columns
from modelflow.runtime.stages.call import BatchCall, Call, UnitCall
from modelflow.runtime.stages.instances import OpeningInterrupted
from modelflow.runtime.stages.processing import OnDevice, process_by_stream
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.stats import ThreadTime
from modelflow.runtime.worker_slot import Handoff, WorkerSlot, is_any_thread
from modelflow.runtime.workers.deadlines import carry, deadlines_of, expire, give_up_gone
from modelflow.runtime.workers.worker_report import WorkerOwner, WorkerReport

if TYPE_CHECKING:
    from modelflow.unit.unit import FlowUnit


class Worker(WorkerReport):
    """A thread of a stage with its unit instances: open, work, close."""

    slot: WorkerSlot
    """The slot of the worker at the stage's inbox."""
    is_given_up: bool = False
    """True if a Ctrl-C or another `BaseException` ended `try_open`, so the start must stop."""
    _batch_call: BatchCall

    def __init__(self, stage: Stage, number: int, owner: WorkerOwner, clock: Clock) -> None:
        super().__init__(stage, number, owner, clock)
        self._own_thread = 0
        self.slot = stage.inbox.slot(self, stage.figures.workers[number])
        self._own = Handoff(stage.inbox.waiting)  # the slots of other workers that this thread runs
        self._units: list[FlowUnit] = []
        self._is_loaded = True
        self._is_per_stream = any(unit.spec.kind.is_per_stream for unit in stage.plan.units)
        self._exits = stage.exits
        self._on_device: OnDevice | None = None
        transfer = stage.transfer(number)
        if transfer is not None:
            self._on_device = OnDevice(transfer, self._at, self._is_per_stream)
        self._ended: Columns = [[] for _ in stage.plan.routes or ("",)]

    # -- life -----------------------------------------------------------------------------------

    def main(self) -> None:
        """Opens the unit, works until the flow ends, and closes the unit.

        The thread of the worker runs this method.
        """
        self._own_thread = threading.get_ident()
        if self.stage.plan.cpu_affinity:
            # Applies to this thread alone. Threads that an engine starts from this thread inherit
            # it.
            os.sched_setaffinity(0, self.stage.plan.cpu_affinity)
        if not self.try_open():
            return
        self._stats.thread = ThreadTime()
        try:
            if self._owner.wait_until_all_open():
                self.begin()
            self._stats.since = self._clock.now()
            # `is_leaving` is True here if the worker was to join a running flow, and the change
            # failed.
            if not self.slot.is_leaving:
                self.loop()
            self.finish()
            self._stats.until = self._clock.now()
        except BaseException as error:
            self._report(error, "process")
            self._own.give_back()
        self._stats.thread.end()
        self.try_close()

    def try_load(self) -> None:
        """Imports the modules of the units, and reports an error to the owner."""
        for instances in self.stage.instances:
            self._at = instances.plan
            self._enter("open")
            try:
                instances.load(self._device)
            except KeyboardInterrupt:  # a Ctrl-C of the calling thread
                self._leave()
                raise
            except BaseException as error:
                self._is_loaded = False
                self._report(error, "open")
                return
            self._leave()

    def try_open(self) -> bool:
        """Opens the units, and reports an error to the owner.

        Does nothing if the modules could not be imported, because `try_load` has reported that.
        """
        if not self._is_loaded:
            return False
        self.thread_id = threading.get_ident()
        for instances in self.stage.instances:
            self._at = instances.plan
            self._enter("open")
            try:
                self._units.append(instances.open(self._device))
            except BaseException as error:
                self.is_given_up = not isinstance(error, Exception)
                if isinstance(error, OpeningInterrupted):
                    self._leave()  # the flow is being stopped, and needs no report
                else:
                    self._report(error, "open")
                self.try_close()
                return False
            self._leave()
        self.call = call = self.call_of(self.stage.calls_of(self._units))
        self.look_at_slot()
        if isinstance(call, BatchCall):  # other calls belong to subclasses of this class
            self._batch_call = call
        self._owner.on_open()
        return True

    def look_at_slot(self) -> None:
        """Notes whether other threads may run the unit."""
        self.slot.is_lendable = self.stage.is_lendable and all(map(is_any_thread, self._units))

    def join(self, owner: WorkerOwner) -> None:
        """Sets another owner, which gets all further reports."""
        self._owner = owner

    def call_of(self, calls: Sequence[UnitCall]) -> Call:
        """Returns the call of the stage's only unit."""
        return calls[0]

    def begin(self) -> None:
        """Reports to the owner that the worker has begun. Sources override this method."""
        self._owner.on_begin()

    def try_close(self) -> None:
        """Closes the open units, and reports an error to the owner."""
        self.thread_id = threading.get_ident()
        for instances, unit in zip(self.stage.instances, self._units, strict=False):
            self._at = instances.plan
            self._enter("close")
            try:
                instances.close(unit, self._device)
            except BaseException as error:
                self._report(error, "close")
            self._leave()
        self._units = []

    def try_step(self) -> bool:
        """Processes a batch on the calling thread, and reports errors to the owner; see `step`."""
        self.thread_id = threading.get_ident()
        try:
            return self.step()
        except KeyboardInterrupt:  # inline flow: the user's thread, which may then stop the flow
            self._leave()
            raise
        except BaseException as error:
            self._report(error, "process")
            return False

    def loop(self) -> None:
        """Processes batches until the inbox is closed."""
        inbox, outbox = self.stage.inbox, self.stage.outbox
        own, slot = self._own, self.slot
        while (batch := inbox.take(slot)) is not None:
            if batch.spans:
                self.run(batch, own)
            del batch  # otherwise the batch would stay in memory during the waits
            if own.slots:
                own.go_on()
            if outbox.is_blocked():
                self._wait_for_room()

    def stand_in(self, handoff: Handoff) -> None:
        """Processes one waiting batch on the calling thread, and gives the slot back.

        The next stages continue with ``handoff``, too. If the thread is a caller's and a Ctrl-C
        comes, the sessions of the batch are cancelled, so their readers do not wait forever.
        """
        batch, is_owing = None, False
        self.thread_id = threading.get_ident()
        try:
            batch = self.stage.inbox.take_nowait(self.slot)
            if batch is not None:
                self.run(batch, handoff)
                is_owing = self.stage.outbox.is_blocked()
        except KeyboardInterrupt:
            for span in () if batch is None else batch.spans:
                self._owner.cancel(span.stream.session)
            raise
        except BaseException as error:
            self._report(error, "process")
        finally:
            self.rise(handoff, is_owing=is_owing)

    def rise(self, handoff: Handoff, *, is_owing: bool) -> None:
        """Gives back the slot that ``handoff`` has borrowed. A second call has no effect.

        Args:
            handoff: The borrower of the slot.
            is_owing: True if the worker's own thread must wait for room after the stage before it
                takes more rows.
        """
        if self.slot.borrower is handoff:
            self._stats.busy_since, self.phase = None, "idle"  # `_leave`, without a call
            self.thread_id = self._own_thread
        self.stage.inbox.give_back(self.slot, handoff, is_owing)

    @property
    def is_away(self) -> bool:
        """Returns whether the thread of this worker runs another worker."""
        return bool(self._own.slots)

    def wake(self) -> None:
        """Wakes the worker from waits other than its inbox, because the flow drains or stops."""

    def finish(self) -> None:
        """Finishes the work that is left after the inbox was closed."""

    def step(self) -> bool:
        """Processes one ready batch, and returns False if no batch was ready."""
        batch = self.stage.inbox.take_nowait()
        if batch is not None:
            self.run(batch)
        return batch is not None

    # -- a batch --------------------------------------------------------------------------------

    def run(self, batch: Batch, handoff: Handoff | None = None) -> None:
        """Calls the unit for a batch and emits the results, without waiting.

        Args:
            batch: The rows for the unit.
            handoff: Collects the slots of next stages that the calling thread may run itself. None
                to wake their own threads.
        """
        size = len(batch.columns[0])  # `Batch.size` without the cost of a call
        has_errors = batch.has_errors
        results = self._ended
        if size:
            deadlines = None
            for span in batch.spans:
                if span.stream.session.has_deadlines:
                    give_up_gone(batch)
                    deadlines = deadlines_of(batch.columns)
                    has_errors = self._expire(batch, deadlines) or has_errors
                    break
            # Not `_enter` and `_leave`, because every batch passes here, and calls cost time.
            stats = self._stats
            self.phase = "process"
            stats.size = size
            stats.busy_since = start = self._clock.now()
            if self._on_device is not None:
                results, has_errors = self._on_device.process(self._batch_call, batch, has_errors)
            elif self._is_per_stream:
                results = process_by_stream(self._batch_call, batch, has_errors)
            else:
                results = self._batch_call.process(batch.columns, has_errors, batch.stream_of)
            has_errors = has_errors or self.call.has_errors
            end = self._clock.now()
            arrived = batch.arrived
            waited = start - arrived if arrived else -1.0
            batch.arrived = end  # the results arrive at the next stage almost at this time
            stats.count(size, self.call.failed, end - start, waited, start)
            stats.busy_since = None
            self.phase = "idle"
            if has_errors:
                self._note_errors(results)
            ring = self.ring
            is_kept = ring is not None and (end - start >= ring.short or next(ring.turns) > 0)
            # Without a recorder or watcher, skip the call: it would cost as much as a whole no-op
            # unit.
            if is_kept or self._owner.is_watched or (ring is not None and ring.watched):
                self._record(batch, results, start, end, arrived, is_kept=is_kept)
            if deadlines is not None:
                carry(deadlines, results)
        self.stage.outbox.emit(batch, results, has_errors, handoff)
        if self._exits:
            self._count_out(batch)

    def _expire(self, batch: Batch, deadlines: Sequence[float | None]) -> bool:
        """Replaces rows whose deadline has passed by errors, and returns True if any was late."""
        now, plan = self._clock.now(), self.stage.plan.unit
        columns = expire(batch.columns, deadlines, now, plan, batch.stream_of, self._stats)
        batch.columns = columns or batch.columns
        return columns is not None

    def _count_out(self, batch: Batch) -> None:
        """Subtracts the rows from the rows in flight of sessions with a count at this node."""
        for span in batch.spans:
            session = span.stream.session
            place = self._exits.get(session.origin)
            if place is not None and span.positions:
                session.progress.leave(place, len(span.positions))
                session.progress.call_due()
