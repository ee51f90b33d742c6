"""Changes of a running flow: batches, queues, threads, rows in flight.

Example: a stage with one worker gets two more. The units of the new workers are opened while the
traffic continues. Then the stage is held until its worker is idle. From then on the results are put
in order, and all three workers run.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from modelflow.errors import FlowFailed, FlowUnitError, PlanError, StreamClosed
from modelflow.plan import ExecutionPlan, StagePlan, reconfigure_plan
from modelflow.runtime.flow_state import FlowState
from modelflow.runtime.runners import Runner
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.workers.worker import Worker
from modelflow.runtime.workers.worker_report import WorkerOwner

if TYPE_CHECKING:
    from modelflow.runtime.session.session import Session


class Reconfiguration:
    """The change of a running flow from one plan to another, stage after stage."""

    plan: ExecutionPlan
    """The plan that runs now."""

    def __init__(
        self,
        plan: ExecutionPlan,
        wiring: Wiring,
        workers: list[Worker],
        runner: Runner,
        life: FlowState,
        owner: WorkerOwner,
    ) -> None:
        """Stores the parts of the flow, and changes none of them.

        Args:
            plan: The plan that runs now.
            wiring: The stages.
            workers: The workers of all stages. This object changes the list.
            runner: The runner of the workers.
            life: The state of the flow.
            owner: The owner of the workers.
        """
        self.plan = plan
        self._wiring = wiring
        self._workers = workers
        self._runner = runner
        self._life = life
        self._owner = owner
        self._lock = threading.Lock()

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies changes, and updates `plan`; see `reconfigure_plan`.

        Several calls run one after the other.

        Raises:
            ConfigError, PlanError: A change is not possible, and none was made.
            FlowFailed: A unit of a new thread did not open. Its stage is unchanged, but earlier
                stages are changed.
            StreamClosed: The flow does not run, or ends meanwhile.
        """
        with self._lock:
            if not self._life.is_running:
                raise self._life.make_closed_error()
            wanted = reconfigure_plan(self.plan, changes)
            for name, planned in wanted.stages.items():
                self._check(self._wiring.stages[name], planned.threads)
            for name, planned in wanted.stages.items():
                stage = self._wiring.stages[name]
                if planned != stage.plan:
                    self._change(stage, planned, self._grow(stage, planned.threads))
                    self.plan = replace(self.plan, stages={**self.plan.stages, name: planned})
            self._wiring.set_bounds(wanted.max_in_flight)
            self.plan = wanted

    def _check(self, stage: Stage, threads: int) -> None:
        plan = stage.plan
        if threads == plan.threads:
            return
        if not self._runner.is_threaded:
            raise PlanError(
                f"{plan.name}.threads: this flow runs on its caller's thread (threads=0)"
            )
        if not plan.unit.spec.kind.is_plain:
            raise PlanError(
                f"{plan.name}.threads: the {plan.unit.spec.kind} unit's cannot be changed "
                "while the flow runs; expected a normal one"
            )

    # -- more threads ---------------------------------------------------------------------------

    def _grow(self, stage: Stage, threads: int) -> "list[tuple[Worker, _JoinedThreads]]":
        """Starts additional workers of a stage, which open their units and wait for `let_go`."""
        made = []
        stage.figures.add_workers(threads)
        for number in range(stage.plan.threads, threads):
            joining = _JoinedThreads()
            worker = (stage.kind.worker or Worker)(stage, number, joining, stage.clock)
            worker.slot.is_leaving = True  # until `_change` lets the worker begin
            made.append((worker, joining))
        errors: list[Exception] = []
        is_given_up = True
        try:
            for worker, joining in made:
                try:
                    self._runner.add(worker, joining.on_end)
                except FlowUnitError as error:
                    joining.on_failure(error)
            for _, joining in made:
                errors += joining.wait_open()
            is_given_up = bool(errors)
        finally:  # also after a Ctrl-C, because the new workers would wait forever
            if is_given_up:
                for _, joining in made:
                    joining.let_go(goes_on=False)
                stage.figures.drop_workers(stage.plan.threads)
        if errors:
            for worker, _ in made:
                self._runner.remove(worker)
            closed = next((one for one in errors if isinstance(one, StreamClosed)), None)
            if closed is not None:
                raise closed
            raise FlowFailed(
                f"node {stage.plan.name!r} goes on with {stage.plan.threads} threads", errors
            )
        return made

    # -- the change -----------------------------------------------------------------------------

    def _change(
        self, stage: Stage, planned: StagePlan, more: "list[tuple[Worker, _JoinedThreads]]"
    ) -> None:
        """Applies the new plan of a stage.

        If the number of threads changes, the stage is held until all of its workers are idle.
        """
        before = stage.plan.threads
        # If the inbox begins to count why batches close, hold the stage, because the counts must
        # cover whole batches. See also `Stage.go_by`.
        is_noting = (
            stage.kind.is_gathering
            and not planned.unit.spec.is_source
            and planned.batch_timeout
            and not stage.inbox.is_noting
        )
        if planned.threads == before and not (is_noting and self._runner.is_threaded):
            stage.go_by(planned)
            self._wiring.refresh(stage)
            self._lend(stage)
            return
        here = [worker for worker in self._workers if worker.stage is stage]
        leaving = here[planned.threads :]
        is_open = False
        try:
            is_open = stage.inbox.hold(before)
            if is_open:
                stage.go_by(planned)
                self._wiring.refresh(stage)
                for worker, _ in more:
                    worker.join(self._owner)
                    self._workers.append(worker)
                stage.inbox.dismiss([worker.slot for worker in leaving])
        finally:
            for worker, joining in more:
                worker.slot.is_leaving = not is_open
                joining.let_go(goes_on=is_open)
            if not is_open:
                stage.figures.drop_workers(before)
            else:
                for worker in leaving:
                    self._runner.remove(worker)
                    self._workers.remove(worker)
            stage.inbox.release()
            stage.inbox.call_due()
        if not is_open:
            raise StreamClosed(f"the flow ended before node {stage.plan.name!r} could be changed")
        stage.figures.drop_workers(planned.threads)
        self._lend(stage)

    def _lend(self, stage: Stage) -> None:
        for worker in self._workers:
            if worker.stage is stage:
                worker.look_at_slot()


class _JoinedThreads:
    """The owner of an additional worker, until `let_go` lets the worker begin or end."""

    is_draining = is_watched = False

    def __init__(self) -> None:
        self._over = threading.Event()  # set when the unit is open, or has failed to open
        self._is_open = False
        self._decided = threading.Event()
        self._errors: list[Exception] = []
        self._goes_on = False

    def wait_open(self) -> list[Exception]:
        """Waits until the worker has opened its unit or failed, and returns the errors."""
        self._over.wait()
        if self._errors or self._is_open:
            return self._errors
        # A stop has interrupted the opening, which is no failure of the unit.
        return [StreamClosed("the flow ended before a unit of a new thread was open")]

    def let_go(self, *, goes_on: bool) -> None:
        """Lets the worker begin if ``goes_on``, or end."""
        self._goes_on = goes_on
        self._decided.set()

    def on_open(self) -> None:
        """Notes that the worker has opened its unit; see `WorkerOwner`."""
        self._is_open = True
        self._over.set()

    def on_end(self) -> None:
        """Notes that the thread of the worker ends."""
        self._over.set()

    def wait_until_all_open(self) -> bool:
        """Does nothing; see `WorkerOwner`."""
        self._decided.wait()
        return self._goes_on

    def on_begin(self) -> None:
        """Waits for `let_go`; see `WorkerOwner`."""

    def cancel(self, session: "Session") -> None:
        """Does nothing, because the worker has had no rows; see `WorkerOwner`."""

    def on_failure(self, error: FlowUnitError) -> None:
        """Stores the error, and lets the flow continue; see `WorkerOwner`."""
        self._errors.append(error)
        self._over.set()
