"""Owns everything that runs: starts it, ends it, and is what the rest of the house holds of it.

``Scheduler(plan, options)`` makes stages and queues; `start` has every worker open its unit and
returns when all are open; `stop` ends the inputs, waits until what was sent has passed, closes
every queue and joins every thread. Who is in it `SessionRegistry` knows, how far it has come
`FlowState`.
"""

import _thread
import asyncio
import logging
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
    """A plan while it runs: started once, stopped once. Safe from any thread.

    ``new`` -> ``running`` -> ``stopping`` -> ``stopped``; a failure is noted at once, and brings
    the flow to its end at the next call of `start`, `wait` or `stop`.
    """

    options: SchedulerOptions
    """How it runs."""
    sources: dict[str, Session]
    """The sessions of the sources, by node."""
    is_draining: bool
    """No new work is taken: sources end."""
    is_foreign: bool
    """This process is a fork of the one that made the scheduler, and has none of its threads."""
    is_watched: bool
    """A session may have a `Watcher`; set before the first one enters."""

    def __init__(self, plan: ExecutionPlan, options: SchedulerOptions) -> None:
        """Builds stages and queues; starts nothing."""
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
        self._ending = FlowShutdown(
            self._life, self._sessions, self._wiring, workers, self._runner, options.stop_timeout
        )
        self._starting = FlowStartup(self._life, workers, self._runner, self._ending)
        self._reconfiguring = Reconfiguration(
            plan, self._wiring, workers, self._runner, self._life, self
        )

    @property
    def plan(self) -> ExecutionPlan:
        """What runs."""
        return self._reconfiguring.plan

    # -- starting -------------------------------------------------------------------------------

    def start(self, check: Callable[[], None] | None = None) -> None:
        """Opens every unit, each on its worker's thread, and lets them run.

        Args:
            check: Called when every unit is open; what it raises ends everything, and is raised.

        Raises:
            FlowFailed: a unit did not open; everything has ended.
            StreamClosed: it was started before.
        """
        self._life.begin()
        logger.info("flow %r starts: %d nodes", self.plan.name, len(self._wiring.stages))
        try:
            self._starting.open(check)
        except FlowUnitError as error:  # the system has no more threads
            self._life.errors.append(error)
        except BaseException:  # Ctrl-C while a unit loads: leave nothing behind
            self.stop(drain=False)
            raise
        if self._life.errors:
            self.stop(drain=False)

    def on_open(self) -> None:
        """Notes an open unit (called by its worker)."""
        self._life.on_open()

    def wait_until_all_open(self) -> bool:
        """Waits until every unit is open, or the start is given up: False (called by workers)."""
        return self._life.wait_until_all_open()

    def on_begin(self) -> None:
        """Notes that a unit has begun (called by its worker)."""
        self._life.on_begin()

    # -- sessions -------------------------------------------------------------------------------

    def create_session(self) -> Session:
        """Makes a session of the graph's own inputs.

        Raises:
            StreamClosed: the flow does not run, or has no inputs.
        """
        return self.create_sessions(1)[0]

    @property
    def is_row_by_row(self) -> bool:
        """Tells whether every row passes the graph by itself, from its only input.

        Request batches may then.
        """
        origin = self.plan.origins.get("")
        return origin is not None and origin.is_row_by_row

    @property
    def single_outputs(self) -> frozenset[str]:
        """The outputs that give exactly one buffer for each that is sent."""
        origin = self.plan.origins.get("")
        return frozenset() if origin is None else origin.single_outputs

    def create_request_batch(self) -> Session:
        """Makes a session for many requests; see `create_session`."""
        (session,) = self._sessions.create(1, is_request_batch=True)
        self._runner.wake()
        return session

    def create_sessions(self, count: int) -> list[Session]:
        """Makes several sessions, as `create_session` does one."""
        made = self._sessions.create(count)
        self._runner.wake()
        return made

    def caller_of(self, session: Session) -> Handoff | None:
        """Has the only caller of the flow work for its answer itself; None: others do.

        There is nobody then whose rows its own could be one batch with, and a thread that only
        waits, for as long as it takes: in a unit it cannot look at the time. A caller within an
        event loop is left to wait: units may run loops of their own.

        Raises:
            RuntimeError: a unit of this flow is calling.
        """
        if len(self._sessions.known) > 1:
            self.check_outside()
            return None
        if self.options.is_inline:
            return None
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # there is none
            session.handoff = Handoff(None, self._sessions.known)
        return session.handoff

    def cancel(self, session: Session) -> None:
        """Ends a session and drops what is queued for it; wakes whoever waits to send for it."""
        self._wiring.cancel(session)

    def abandon(self, session: Session) -> None:
        """Cancels a session whose caller breaks off, perhaps in the middle of its end."""
        self._wiring.cancel(session)
        if session.is_finished:
            session.finish()

    def drop(self, session: Session) -> None:
        """Notes that nobody holds a session any more; takes no lock, waits for nothing."""
        self._sessions.drop(session)

    def disown(self) -> None:
        """Notes that this process is a fork: what runs here is nothing of ours."""
        self.is_foreign = True

    def check_process(self) -> None:
        """Checks that the flow runs in this process.

        Raises:
            StreamClosed: it was made before a fork, in the parent.
        """
        if self.is_foreign:
            raise StreamClosed(
                "this flow was started before the process forked, and its threads are not in this "
                "process; make the Flow after the fork"
            )

    def check_outside(self, call: str = "infer") -> None:
        """Checks that nobody waits for an answer on a thread that is to work for it.

        Raises:
            RuntimeError: a unit of this flow is calling.
        """
        self._ending.check_not_inside(call)

    # -- running --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Tells whether sessions can be created."""
        return self._life.is_running

    @property
    def is_stopped(self) -> bool:
        """Tells whether everything has ended."""
        return self._life.state == "stopped"

    def pump(self, *, is_awaited: bool = True) -> None:
        """Runs what is ready on the calling thread, if the flow is inline; see `Runner.pump`."""
        self._runner.pump(is_awaited=is_awaited)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every source is done and what it gave has passed, or the flow ends.

        A flow without sources ends when it is stopped.

        Returns:
            False if ``timeout`` seconds passed before.

        Raises:
            FlowFailed: the flow itself failed.
        """
        self._runner.pump()
        if not self._life.wait_while(lambda: not self._sessions.are_over(), timeout):
            return False
        if self._life.errors:
            self.stop(drain=False)
        return True

    def wait_for(self, session: Session, timeout: float | None = None) -> bool:
        """Waits until ``session`` is over; False if ``timeout`` seconds passed before."""
        life, known = self._life, self._sessions.known
        self._runner.pump()
        return life.wait_while(lambda: session in known and not life.errors, timeout)

    def count_held(self) -> dict[str, int]:
        """Returns what is kept of sessions, by place: nothing when no session is open."""
        found, known = self._wiring.count_held(), self._sessions.known
        return {**found, "sessions": len(known)} if known else found

    def tensor(self, node: str, port: str) -> TensorSpec | None:
        """Returns what the open unit of a node knows of one item at ``port``; None: nothing."""
        return self._wiring.tensor(node, port)

    def statistics(self) -> FlowStats:
        """Returns the figures of the flow and of every node at this moment."""
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
        )

    def record(self, recorder: Recorder | None) -> None:
        """Has everything that is done from now on recorded; None: no more.

        Raises:
            RuntimeError: somebody records already.
        """
        with self._life.lock:
            if recorder is not None and self._sessions.recorder is not None:
                raise RuntimeError(f"flow {self.plan.name!r} is being recorded already")
            self._sessions.recorder = recorder
        for worker in list(self._workers):
            worker.ring = None if recorder is None else recorder.ring(worker.track)

    def reload(self, node: str | None) -> None:
        """Lets the shared units of a node (None: of every node that can) take up what is new.

        Runs on the caller's thread while traffic goes on.

        Raises:
            FlowUnitError: the node has nothing to reload, or its unit failed to; it goes on as it
                was.
            StreamClosed: the flow does not run.
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
        """Changes batches, queues, threads or the bound on rows in flight; see `Flow.reconfigure`.

        Raises:
            ConfigError, PlanError: a change cannot be made; none is.
            FlowFailed: a unit of a new thread did not open.
            RuntimeError: a unit of this flow called it, on a thread that it would wait for.
            StreamClosed: the flow does not run, or ends meanwhile.
        """
        self._ending.check_not_inside("reconfigure")
        self._reconfiguring.apply(changes)
        self._note_event("reconfigure", {name: str(value) for name, value in changes.items()})
        recorder = self._sessions.recorder
        for worker in list(self._workers):
            if worker.ring is None and recorder is not None:
                worker.ring = recorder.ring(worker.track)

    # -- ending ---------------------------------------------------------------------------------

    def on_failure(self, error: FlowUnitError) -> None:
        """Ends the flow because of an error that belongs to no buffer; does not wait."""
        self._life.fail(error)
        self._note_event("failed", {"error": str(error)})
        self._ending.abort()

    def stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Ends the flow: every unit is closed once, every thread joined. May be called again.

        Args:
            drain: What has been sent is still worked on; else it is dropped, and whoever waits for
                results gets `StreamClosed`.
            timeout: Seconds that threads may take to end; None: `SchedulerOptions.stop_timeout`.

        Raises:
            FlowFailed: a unit failed to open or close, or hangs, or the runtime has a bug. Each
                inner error names its node.
            RuntimeError: it was called in a unit of this flow, on a thread that it would join.
        """
        if self.is_foreign:
            return  # the parent's threads are not ours to end
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
        # Who waits already for what sources bring is not left to; nor does anybody wait for
        # somebody else's stop, which may be draining.
        if is_new or is_hurried:
            ending.abort()
        with life.lock:
            while not is_first and life.state != "stopped":
                life.changed.wait(life.clock, None)
        if is_first:
            try:
                if drain and not life.errors:
                    ending.drain()
            finally:  # Ctrl-C in the middle of it: the threads end all the same
                ending.end(timeout)
        if life.errors:
            raise FlowFailed(f"flow {self.plan.name!r} failed", list(life.errors))

    def list_busy(self) -> list[str]:
        """Says of each thread that is in a unit now which node that is, since when, and where.

        For whoever waits for what does not come.

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
        """Has the flow stopped by another thread, and returns at once.

        For signal handlers, and for units of the flow itself: no lock is taken here. A later `stop`
        waits for the end, and raises what went wrong.
        """
        _thread.start_new_thread(self._stop_quietly, (drain, timeout))

    def _stop_quietly(self, drain: bool, timeout: float | None) -> None:
        try:
            self.stop(drain, timeout)
        except FlowFailed as error:  # raised again to whoever calls `stop` or `wait`
            logger.debug("flow %r was asked to stop: %s", self.plan.name, error)
