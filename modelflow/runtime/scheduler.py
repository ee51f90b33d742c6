"""The scheduler, which owns all running parts of a flow, and starts and ends them.

``Scheduler(plan, options)`` makes stages and queues. `start` returns when every worker has opened
its unit. `stop` ends the inputs, waits until all rows that were sent have been processed, closes
every queue and joins every thread. `SessionRegistry` has the open sessions, and `FlowState` has the
state of the flow.
"""

import _thread
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from modelflow.device import host_pool
from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed
from modelflow.plan import ExecutionPlan
from modelflow.runtime.flow_state import FlowState, SchedulerOptions
from modelflow.runtime.lifecycle import FlowShutdown, FlowStartup
from modelflow.runtime.reconfiguring import Reconfiguration
from modelflow.runtime.runners import InlineRunner, Runner, ThreadRunner
from modelflow.runtime.session.session import Session
from modelflow.runtime.session_registry import SessionRegistry
from modelflow.runtime.stats import FlowStats
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.worker_slot import Handoff
from modelflow.runtime.workers.trace_buffer import Recorder
from modelflow.runtime.workers.worker import Worker
from modelflow.wire.tensor import TensorSpec

logger = logging.getLogger("modelflow")


class Scheduler:
    """A running plan, which can be started once and stopped once. Safe from any thread.

    The states are ``new`` -> ``running`` -> ``stopping`` -> ``stopped``. A failure is stored
    immediately, and ends the flow at the next call of `start`, `wait` or `stop`.
    """

    options: SchedulerOptions
    """The options of the flow."""
    sources: dict[str, Session]
    """The sessions of the sources, by node."""
    is_draining: bool
    """True if no new work is accepted and sources must end."""
    is_foreign: bool
    """True in a forked child of the process that made the scheduler, without its threads."""
    is_watched: bool
    """True if a session may have a `Watcher`; set before the first such session enters."""

    def __init__(self, plan: ExecutionPlan, options: SchedulerOptions) -> None:
        """Builds stages and queues, and starts no thread."""
        self.options = options
        self.is_draining = self.is_foreign = self.is_watched = False
        clock = options.clock
        self._wiring = Wiring(plan, options)
        self.submitter = self._wiring.submitter
        self._workers = workers = [
            (stage.kind.worker or Worker)(stage, number, self, clock)
            for stage in self._wiring.stages.values()
            for number in range(stage.plan.threads)
        ]
        self._life = FlowState(plan.name, len(workers), clock)
        self._sessions = SessionRegistry(self._wiring, workers, self._life)
        self.sources = self._sessions.of_sources
        self._runner: Runner = InlineRunner(workers)
        if not options.is_inline:
            self._runner = ThreadRunner(
                plan.name, workers, self._sessions.has_work, options.watchdog_interval, clock
            )
        self.pump = self._runner.pump
        """Processes the ready batches of an inline flow on this thread; see `Runner.pump`."""
        self._ending = FlowShutdown(
            self._life, self._sessions, self._wiring, workers, self._runner, options.stop_timeout
        )
        self._starting = FlowStartup(self._life, workers, self._runner, self._ending)
        self._reconfiguring = Reconfiguration(
            plan, self._wiring, workers, self._runner, self._life, self
        )

    @property
    def plan(self) -> ExecutionPlan:
        """The plan that runs now."""
        return self._reconfiguring.plan

    # -- starting -------------------------------------------------------------------------------

    def start(self, check: Callable[[], None] | None = None) -> None:
        """Opens every unit on its worker's thread, and lets all units run.

        Args:
            check: Called when every unit is open. An exception of ``check`` ends the flow, and is
                raised.

        Raises:
            FlowFailed: A unit did not open. The flow has ended.
            StreamClosed: The flow was started before.
        """
        self._life.begin()
        logger.info("flow %r starts: %d nodes", self.plan.name, len(self._wiring.stages))
        try:
            self._starting.open(check)
        except FlowUnitError as error:  # the system has no more threads
            self._life.errors.append(error)
        except BaseException:  # a Ctrl-C while a unit loads: end all threads
            self.stop(drain=False)
            raise
        if self._life.errors:
            self.stop(drain=False)

    def on_open(self) -> None:
        """Counts a worker that has opened its units. Called by the worker."""
        self._life.on_open()

    def wait_until_all_open(self) -> bool:
        """Waits until every unit is open, and returns False if the start was given up.

        Called by workers.
        """
        return self._life.wait_until_all_open()

    def on_begin(self) -> None:
        """Counts a worker that has begun. Called by the worker."""
        self._life.on_begin()

    # -- sessions -------------------------------------------------------------------------------

    def create_session(self) -> Session:
        """Makes a session of the graph's own inputs.

        Raises:
            StreamClosed: The flow does not run, or has no inputs.
        """
        (session,) = self._sessions.create(1)
        self._runner.wake()
        return session

    @property
    def is_row_by_row(self) -> bool:
        """Returns whether every row passes the graph independently, from the graph's only input.

        Only then can requests share a request batch.
        """
        origin = self.plan.origins.get("")
        return origin is not None and origin.is_row_by_row

    @property
    def single_outputs(self) -> frozenset[str]:
        """The outputs with exactly one buffer for each input buffer."""
        origin = self.plan.origins.get("")
        return frozenset() if origin is None else origin.single_outputs

    def create_request_batch(self) -> Session:
        """Makes a session for many requests; see `create_session`."""
        (session,) = self._sessions.create(1, is_request_batch=True)
        self._runner.wake()
        return session

    def create_sessions(self, count: int) -> list[Session]:
        """Makes several sessions of the graph's own inputs; see `create_session`."""
        made = self._sessions.create(count)
        self._runner.wake()
        return made

    def caller_of(self, session: Session) -> Handoff | None:
        """Returns a handoff by which the only caller of the flow runs units on the caller's thread.

        With a single caller, no rows of other sessions could share a batch, and the calling thread
        would only wait. The caller must wait without a time limit, because it cannot check the time
        within a unit. Returns None if other sessions exist. A caller on an event loop also gets
        None, because units may run loops of their own.

        Raises:
            RuntimeError: A unit of this flow is calling.
        """
        if len(self._sessions.known) > 1:
            self.check_outside()
            return None
        if self.options.is_inline:
            return None
        # No thread has an event loop before asyncio is imported, which takes a tenth of a start.
        find_loop = getattr(sys.modules.get("asyncio"), "get_running_loop", None)
        try:
            is_in_loop = find_loop is not None and find_loop() is not None
        except RuntimeError:  # this thread has no running event loop
            is_in_loop = False
        if not is_in_loop:
            session.handoff = Handoff(None, self._sessions.known)
        return session.handoff

    def cancel(self, session: Session) -> None:
        """Cancels a session, drops its queued data, and wakes threads that wait to send."""
        self._wiring.cancel(session)

    def abandon(self, session: Session) -> None:
        """Cancels a session after an exception of its caller, perhaps while the session ends."""
        self._wiring.cancel(session)
        if session.is_finished:
            session.finish()

    def drop(self, session: Session) -> None:
        """Notes that the user has dropped a session. Takes no lock and does not wait."""
        self._sessions.drop(session)

    def disown(self) -> None:
        """Notes that this process is a forked child, which has none of the flow's threads."""
        self.is_foreign = True

    def check_process(self) -> None:
        """Checks that the flow runs in this process.

        Raises:
            StreamClosed: The flow was made in the parent before a fork.
        """
        if self.is_foreign:
            raise StreamClosed(
                "this flow was started before the process forked, and its threads are not in this "
                "process; make the Flow after the fork"
            )

    def check_outside(self, call: str = "infer") -> None:
        """Checks that no thread of this flow waits for an answer of the same flow.

        Raises:
            RuntimeError: A unit of this flow is calling.
        """
        self._ending.check_not_inside(call)

    # -- running --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Returns whether sessions can be created."""
        return self._life.is_running

    @property
    def is_stopped(self) -> bool:
        """Returns whether all parts of the flow have ended."""
        return self._life.state == "stopped"

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all rows of every source have been processed, or the flow ends.

        A flow without sources ends when it is stopped.

        Returns:
            False if ``timeout`` seconds passed before.

        Raises:
            FlowFailed: The flow itself failed.
        """
        self._runner.pump()
        if not self._life.wait_while(lambda: not self._sessions.are_over(), timeout):
            return False
        if self._life.errors:
            self.stop(drain=False)
        return True

    def wait_for(self, session: Session, timeout: float | None = None) -> bool:
        """Waits for the end of ``session``, and returns False if ``timeout`` seconds passed."""
        life, known = self._life, self._sessions.known
        self._runner.pump()
        return life.wait_while(lambda: session in known and not life.errors, timeout)

    def count_held(self) -> dict[str, int]:
        """Returns the number of stored session objects by place; empty if no session is open."""
        found, known = self._wiring.count_held(), self._sessions.known
        return {**found, "sessions": len(known)} if known else found

    def tensor(self, node: str, port: str) -> TensorSpec | None:
        """Returns the tensor specification of an item at ``port`` from the open unit, or None."""
        return self._wiring.tensor(node, port)

    def statistics(self) -> FlowStats:
        """Returns the current statistics of the flow and of every node."""
        requests, life, pool = self._sessions.stats, self._life, host_pool()
        now = self.options.clock.now()
        with life.lock:
            outcomes, latency = requests.outcomes(), requests.latencies.histogram()
            in_flight = len(self._sessions.known) - len(self.sources)
            unread = self._sessions.unread()
        if self.submitter.refusals:
            outcomes["rejected"] = self.submitter.refusals
        return FlowStats(
            name=self.plan.name,
            time=now,
            seconds=life.seconds(now),
            nodes=self._wiring.statistics(),
            requests=outcomes,
            latency=latency,
            in_flight=max(0, in_flight),
            unread=unread,
            unread_bound=self.options.results_bound,
            pool={"free": pool.idle_bytes},
            admission=self._wiring.admission(),
        )

    def record(self, recorder: Recorder | None) -> None:
        """Starts to record all calls, or stops the recording if ``recorder`` is None.

        Raises:
            RuntimeError: Another recording is running.
        """
        with self._life.lock:
            if recorder is not None and self._sessions.recorder is not None:
                raise RuntimeError(f"flow {self.plan.name!r} is being recorded already")
            self._sessions.recorder = recorder
            for worker in list(self._workers):
                worker.ring = None if recorder is None else recorder.ring(worker.track)

    def reload(self, node: str | None) -> None:
        """Reloads the shared units of a node, or of every node that supports this for None.

        Runs on the caller's thread while the traffic continues.

        Raises:
            FlowUnitError: The node has nothing to reload, or its unit failed to reload. The old
                unit continues.
            StreamClosed: The flow does not run.
        """
        if not self.is_running:
            raise StreamClosed("the flow does not run; nothing can be reloaded")
        try:
            self._wiring.reload(node)
        except BaseException:
            self._note_event("reload failed", {"node": node or "all"})
            raise
        self._note_event("reload", {"node": node or "all"})

    def _note_event(self, what: str, details: Mapping[str, str]) -> None:
        if (recorder := self._sessions.recorder) is not None:
            recorder.note_event(what, details)

    def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """Changes batches, queues, threads or the limit on rows in flight; see `Flow.reconfigure`.

        Raises:
            ConfigError, PlanError: A change is not possible, and none was made.
            FlowFailed: A unit of a new thread did not open.
            RuntimeError: A unit of this flow called this method, which would wait for that unit's
                thread.
            StreamClosed: The flow does not run, or ends meanwhile.
        """
        self._ending.check_not_inside("reconfigure")
        self._reconfiguring.apply(changes)
        self._note_event("reconfigure", {name: str(value) for name, value in changes.items()})
        with self._life.lock:  # otherwise a recording that ends meanwhile would get a worker
            recorder = self._sessions.recorder
            for worker in list(self._workers):
                if worker.ring is None and recorder is not None:
                    worker.ring = recorder.ring(worker.track)

    # -- ending ---------------------------------------------------------------------------------

    def on_failure(self, error: FlowUnitError) -> None:
        """Ends the flow after an error that belongs to no buffer, without waiting."""
        self._life.fail(error)
        self._note_event("failed", {"error": str(error)})
        self._ending.abort()

    def stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Ends the flow, closes every unit once and joins every thread. May be called again.

        Args:
            drain: True to process the rows that were sent. False to drop them, and readers then get
                `StreamClosed`.
            timeout: Seconds that threads may take to end, or None for
                `SchedulerOptions.stop_timeout`.

        Raises:
            FlowFailed: A unit failed to open or close, or hangs, or the runtime has a bug. Each
                inner error names its node.
            RuntimeError: A unit of this flow called this method, which would join that unit's
                thread.
        """
        if self.is_foreign:
            return  # the threads belong to the parent process
        self._ending.check_not_inside("stop")
        life, ending = self._life, self._ending
        with life.lock:
            is_new = life.state == "new"
            if is_new:
                life.state = "stopped"
            is_first = life.state == "running"
            if is_first:
                life.state, self.is_draining = "stopping", True
            is_hurried = not (is_first or drain) and life.state == "stopping"
            life.changed.wake()
        # Abort before the wait below. A flow that never started may have threads that wait for
        # results of sources. A stop without a drain ends the drain of another thread's stop,
        # instead of waiting for that drain.
        if is_new or is_hurried:
            ending.abort()
        with life.lock:
            while not is_first and life.state != "stopped":
                life.changed.wait(life.clock, None)
        if is_first:
            try:
                if drain and not life.errors:
                    ending.drain()
            finally:  # the threads must end even if a Ctrl-C interrupts the drain
                ending.end(timeout)
        if life.errors:
            raise FlowFailed(f"flow {self.plan.name!r} failed", list(life.errors))

    def list_busy(self) -> list[str]:
        """Returns a text for each thread that is in a unit now: node, time, and position.

        Use it to find out why an answer does not come.

        Returns:
            ``"node 'infer' has been in process for 12.3 s; it is at unit.py:7 in process"``.
        """
        now = self._life.clock.now()
        found = [(worker, worker.busy_since) for worker in list(self._workers)]
        return [
            f"node {worker.at.node!r} has been in {worker.phase} for {now - since:.1f} s"
            f"{worker.position()}"
            for worker, since in found
            if since is not None
        ]

    def list_threads(self) -> list[int]:
        """Returns the `threading.Thread.ident` of each worker that has begun."""
        return [worker.thread_id for worker in list(self._workers) if worker.thread_id]

    def request_stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Starts a thread that stops the flow, and returns immediately.

        For signal handlers and units of the flow itself, because this method takes no lock. A later
        `stop` waits for the end, and raises the errors.
        """
        _thread.start_new_thread(self._stop_quietly, (drain, timeout))

    def _stop_quietly(self, drain: bool, timeout: float | None) -> None:
        try:
            self.stop(drain, timeout)
        except FlowFailed as error:  # a later `stop` or `wait` raises the error again
            logger.debug("flow %r was asked to stop: %s", self.plan.name, error)
