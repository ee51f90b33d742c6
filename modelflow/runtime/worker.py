"""One thread of a stage: take a batch, call the unit, emit."""

import os
import sys
import threading
import time
import traceback
from functools import partial
from typing import Any, Protocol

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.runtime.call import UnitCall
from modelflow.runtime.clock import Clock
from modelflow.runtime.outbox import cut
from modelflow.runtime.segment import Batch, Columns, Stream
from modelflow.runtime.session import Session
from modelflow.runtime.stage import Stage
from modelflow.runtime.transfer import Transfer

__all__ = ["Worker", "WorkerOwner"]


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
        self._is_per_stream = stage.plan.spec.is_per_stream
        self._exits = stage.exits
        self._transfer = stage.transfer(number)

    # -- life -----------------------------------------------------------------------------------

    def main(self) -> None:
        """Opens the unit, works until the flow ends, closes the unit: what the thread runs."""
        if self.stage.plan.cpu_affinity:
            # Of this thread alone; those that an engine starts from it inherit it.
            os.sched_setaffinity(0, self.stage.plan.cpu_affinity)
        if not self.try_open():
            return
        try:
            self._owner.wait_until_all_open()
            self.loop()
            self.finish()
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
        self.call = self.stage.call_of(unit)
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

    def finish(self) -> None:
        """Does what is left to do once the inbox is closed."""

    def step(self) -> bool:
        """Does one batch of what is ready; False if there was none."""
        batch = self.stage.inbox.take_nowait()
        if batch is not None:
            self.run(batch)
        return batch is not None

    def run(self, batch: Batch) -> None:
        """Calls the unit for a batch and sends the results on; does not wait."""
        size = len(batch.columns[0]) if batch.columns else 0
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
            if self._transfer is not None:
                results, has_errors = self._process_on_device(self._transfer, batch, has_errors)
            elif self._is_per_stream:
                results = self._process_by_stream(batch, has_errors)
            else:
                results = self.call.process(batch.columns, has_errors, batch.stream_of)
            self._leave()
            has_errors = has_errors or self.call.has_errors
            self._stats.count(size, self.call.failed, time.perf_counter() - start)
        self.stage.outbox.emit(batch, results, has_errors)
        if self._exits:
            self._count_out(batch)

    def _process_on_device(
        self, transfer: Transfer, batch: Batch, has_errors: bool
    ) -> tuple[Columns, bool]:
        with transfer.running():
            has_errors = self._arrive(transfer, batch) or has_errors
            if self._is_per_stream:
                results = self._process_by_stream(batch, has_errors)
            else:
                results = self.call.process(batch.columns, has_errors, batch.stream_of)
            try:
                transfer.depart(results)
            except Exception as error:
                self.call.failed, self.call.has_errors = len(batch.columns[0]), True
                results = [[self._not_moved(error)] * len(column) for column in results]
        return results, has_errors

    def _arrive(self, transfer: Transfer, batch: Batch) -> bool:
        """Brings a batch to the worker's device; True where that failed, for all of its rows."""
        try:
            batch.columns = transfer.arrive(batch.columns)
        except Exception as error:
            bad = self._not_moved(error)
            columns: list[list[Any]] = list(batch.columns)
            for place, column in enumerate(columns):
                columns[place] = [[bad] if isinstance(cell, list) else bad for cell in column]
            batch.columns = columns
            return True
        return False

    def _not_moved(self, error: Exception) -> Buffer:
        plan = self.stage.plan
        failure = FlowUnitError.from_exception(
            error, node=plan.node, unit=plan.spec.name, phase="transfer"
        )
        return Buffer.from_error(failure)

    def _process_by_stream(self, batch: Batch, has_errors: bool) -> Columns:
        call, failed, has_given_errors, results = self.call, 0, False, []
        for part, columns in cut(batch, batch.columns):
            if columns[0]:
                results.append(call.process(columns, has_errors, partial(_same, part.stream)))
                failed += call.failed
                has_given_errors = has_given_errors or call.has_errors
        call.failed, call.has_errors = failed, has_given_errors
        return [[b for result in results for b in result[port]] for port in range(len(results[0]))]

    def _count_out(self, batch: Batch) -> None:
        """Notes the rows that are no longer counted in their sessions behind this node."""
        for part in batch.slices:
            place = self._exits.get(part.stream.session.origin)
            if place is not None and part.positions:
                part.stream.session.left(place, len(part.positions))

    def _expire(self, batch: Batch) -> bool:
        """Puts an error in the place of every row whose deadline has passed."""
        now, row, has_expired = self._clock.now(), 0, False
        columns: list[list[Any]] = [list(column) for column in batch.columns]
        for part in batch.slices:
            session = part.stream.session
            for position in part.positions:
                sent = part.stream.sent_as(position)
                cell = columns[0][row]  # at a collapse: the list of its stream
                if sent is not None and session.deadlines.get(sent, now) < now:
                    whole = cell if isinstance(cell, list) else [cell]
                    if all(buffer.error is None for buffer in whole):
                        bad = self._expired(whole[0] if whole else Buffer(), session)
                        columns[0][row] = [bad] if whole is cell else bad
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


def _same(stream: Stream, row: int) -> Stream:  # noqa: ARG001 - every row is of this one
    return stream
