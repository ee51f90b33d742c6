"""Owns everything that runs: starts it, ends it, knows its sessions, gathers its errors.

``Scheduler(plan, options)`` makes stages and queues; `start` has every worker open its unit and
returns when all are open; `stop` ends the inputs, waits until what was sent has passed, closes
every queue and joins every thread.
"""

import _thread
import itertools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed
from modelflow.plan import ExecutionPlan, UnitPlan
from modelflow.runtime.bundle import Bundle
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.kinds.source import SourceWorker
from modelflow.runtime.locks import make_lock
from modelflow.runtime.observer import Observer
from modelflow.runtime.runners import InlineRunner, Runner, ThreadRunner
from modelflow.runtime.session import Session
from modelflow.runtime.stats import NodeStats
from modelflow.runtime.waiting import Waiting
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.worker import Worker
from modelflow.wire.tensor import TensorSpec

__all__ = ["Scheduler", "SchedulerOptions"]

logger = logging.getLogger("modelflow")


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """How a flow runs, beside its graph."""

    is_inline: bool = False
    """Everything runs on the calling thread."""
    results_bound: int = 1024
    """Rows of a session between its entrance and its reader at which `send` waits."""
    stop_timeout: float = 10.0
    """Seconds that a stop lets streams go on by events and rows go round, and seconds without any
    progress after which it no longer waits."""
    watchdog_interval: float = 30.0
    """Seconds in one call of a unit after which its node is named in a warning."""
    clock: Clock = SYSTEM_CLOCK
    """What every wait goes by."""
    observer: Observer | None = None
    """Who is told of every batch; None: nobody."""


class Scheduler:
    """A plan while it runs: started once, stopped once. Safe from any thread.

    ``new`` -> ``running`` -> ``stopping`` -> ``stopped``; a failure is noted at once, and brings
    the flow to its end at the next call of `start`, `wait` or `stop`.
    """

    plan: ExecutionPlan
    """What runs."""
    options: SchedulerOptions
    """How it runs."""
    sources: dict[str, Session]
    """The sessions of the sources, by node."""
    is_draining: bool
    """No new work is taken: sources end."""
    is_foreign: bool
    """This process is a fork of the one that made the scheduler, and has none of its threads."""
    observer: Observer | None
    """Who is told of every batch."""
    is_watched: bool
    """A session may have a `Watcher`; set before the first one enters."""

    def __init__(self, plan: ExecutionPlan, options: SchedulerOptions) -> None:
        """Builds stages and queues; starts nothing."""
        self.plan = plan
        self.options = options
        self.is_draining = self.is_foreign = self._is_aborted = self.is_watched = False
        self.observer = options.observer
        self._clock = options.clock
        # Taken itself, not through the condition, in whose methods a Ctrl-C may come.
        self._lock = make_lock("scheduler")
        self._changed = Waiting(self._lock)
        self._sessions: dict[Session, None] = {}
        self._dropped: deque[Session] = deque()
        self._numbers = itertools.count()
        self._opened_by_sources = 0
        self._errors: list[Exception] = []
        self._state = "new"
        self._wiring = Wiring(plan, options.results_bound, options.clock)
        self.entrance = self._wiring.entrance
        workers = [
            (stage.kind.worker or Worker)(stage, number, self, self._clock)
            for stage in self._wiring.stages.values()
            for number in range(stage.plan.threads)
        ]
        self._opening = self._beginning = len(workers)
        self._is_opening = True
        self._is_starting = False
        self._workers = workers
        self.sources = {
            worker.stage.plan.name: self._source_session(worker)
            for worker in workers
            if isinstance(worker, SourceWorker)
        }
        self._runner: Runner = InlineRunner(workers)
        if not options.is_inline:
            self._runner = ThreadRunner(
                plan.name, workers, self._has_work, options.watchdog_interval, self._clock
            )

    def _source_session(self, worker: SourceWorker) -> Session:
        node = worker.stage.plan.name
        worker.session = self._wiring.session(node, node, self._finished)
        worker.entrance = self.entrance
        worker.open_session = partial(self._open_session, worker.session)
        self._sessions[worker.session] = None
        return worker.session

    def _open_session(self, source: Session) -> Session:
        """Makes a session for one buffer of a source, which is told of its errors."""
        node = source.origin
        name = f"{node}/{next(self._numbers)}"
        session = self._wiring.session(name, node, partial(self._opened_finished, source), source)
        with self._lock:
            self._opened_by_sources += 1
            self._sessions[session] = None
            failure = self._closed_error() if self._is_aborted else source.failure
            is_late = self._is_aborted or source.is_cancelled
        if is_late:
            session.cancel(failure)
        return session

    def _opened_finished(self, source: Session, session: Session) -> None:
        source.progress.adopt_errors(session.progress)
        with self._lock:
            self._opened_by_sources -= 1
        self._finished(session)

    # -- starting -------------------------------------------------------------------------------

    def start(self, check: Callable[[], None] | None = None) -> None:
        """Opens every unit, each on its worker's thread, and lets them run.

        Args:
            check: Called when every unit is open; what it raises ends everything, and is raised.

        Raises:
            FlowFailed: a unit did not open; everything has ended.
            StreamClosed: it was started before.
        """
        with self._lock:
            if self._state != "new":
                message = f"flow {self.plan.name!r} is {self._state}; it can be started once"
                raise StreamClosed(message)
            self._state = "running"
        logger.info("flow %r starts: %d nodes", self.plan.name, len(self._wiring.stages))
        try:
            self._open(check)
        except FlowUnitError as error:  # the system has no more threads
            self._errors.append(error)
        except BaseException:  # Ctrl-C while a unit loads: leave nothing behind
            self.stop(drain=False)
            raise
        if self._errors:
            self.stop(drain=False)

    def _open(self, check: Callable[[], None] | None) -> None:
        """Has the units opened, and then lets them run; a stop from elsewhere may come between."""
        try:
            self._start_threads()
            if self._wait_while(lambda: self._opening) and check is not None:
                check()
        except BaseException:
            self._abort()  # before anyone runs
            raise
        finally:  # only now may a unit begin, run, or be closed
            with self._lock:
                self._is_opening = False
                self._changed.wake()
        self._runner.begin()
        self._wait_while(lambda: self._beginning)

    def _start_threads(self) -> None:
        """Starts them, unless a stop has come first; one that comes meanwhile waits for that."""
        try:
            with self._lock:
                self._is_starting = self._state == "running"
            if self._is_starting:
                self._runner.start()
        finally:
            with self._lock:
                self._is_starting = False
                self._changed.wake()

    def _wait_while(self, going: Callable[[], int]) -> bool:
        """Waits for units; False if the flow has failed meanwhile, or was stopped."""
        with self._lock:
            while going() and self._goes_on:
                self._changed.wait(self._clock, None)
            return self._goes_on

    @property
    def _goes_on(self) -> bool:
        return self._state == "running" and not self._errors

    def opened(self) -> None:
        """Notes an open unit (called by its worker)."""
        with self._lock:
            self._opening -= 1
            self._changed.wake()

    def wait_until_all_open(self) -> bool:
        """Waits until every unit is open, or the start is given up: False (called by workers)."""
        with self._lock:
            while self._is_opening:
                self._changed.wait(self._clock, None)
            return self._goes_on and not self._is_aborted

    def begun(self) -> None:
        """Notes that a unit has begun (called by its worker)."""
        with self._lock:
            self._beginning -= 1
            self._changed.wake()

    # -- sessions -------------------------------------------------------------------------------

    def create_session(self) -> Session:
        """Makes a session of the graph's own inputs.

        Raises:
            StreamClosed: the flow does not run, or has no inputs.
        """
        return self.create_sessions(1)[0]

    @property
    def is_row_by_row(self) -> bool:
        """Tells whether every row passes the graph by itself, so that bundles may."""
        origin = self.plan.origins.get("")
        return origin is not None and origin.is_row_by_row

    def create_bundle(self) -> Session:
        """Makes a session for requests of one row each; see `create_session`."""
        session = self.create_session()
        session.carry(Bundle(len(self.plan.origins[""].terminals)))
        return session

    def create_sessions(self, count: int) -> list[Session]:
        """Makes several sessions, as `create_session` does one."""
        if not self.plan.entries:
            names = ", ".join(map(repr, self.sources))
            message = f"flow {self.plan.name!r} has no input; it is fed by its sources: {names}"
            raise StreamClosed(message)
        self._end_dropped()
        made = [
            self._wiring.session(str(next(self._numbers)), "", self._finished) for _ in range(count)
        ]
        with self._lock:
            if not self.is_running:
                raise self._closed_error()
            self._sessions.update(dict.fromkeys(made))
        self._runner.wake()
        return made

    def cancel(self, session: Session) -> None:
        """Ends a session and drops what is queued for it; wakes whoever waits to send for it."""
        self._wiring.cancel(session)

    def drop(self, session: Session) -> None:
        """Notes that nobody holds a session any more; takes no lock, waits for nothing.

        Python collects garbage wherever it likes, also while the runtime holds a lock; so the
        session is ended later: when another one is made, or when the watchdog looks.
        """
        self._dropped.append(session)

    def _end_dropped(self) -> None:
        while self._dropped:
            try:
                session = self._dropped.popleft()
            except IndexError:  # another thread has just taken the last one
                return
            if not session.progress.is_closed:
                text = "session %r was dropped without close_input(); its input ends now"
                logger.warning(text, session.name)
            for results in session.results.values():
                results.abandon()
            self.entrance.close(session)
            session.progress.wake()

    def disown(self) -> None:
        """Notes that this process is a fork: what runs here is nothing of ours."""
        self.is_foreign = True

    def check_process(self) -> None:
        """Checks that the flow runs in this process.

        Raises:
            StreamClosed: it was made before a fork, in the parent.
        """
        if self.is_foreign:
            message = (
                "this flow was started before the process forked, and its threads are not in this "
                "process; make the Flow after the fork"
            )
            raise StreamClosed(message)

    def _finished(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session, None)
            if self._changed.count:
                self._changed.wake()

    def _has_work(self) -> bool:
        """Tells the watchdog whether there is anything to look at; called by its thread."""
        self._end_dropped()
        return bool(self._sessions)

    def _closed_error(self) -> StreamClosed:
        if self._errors:
            error = StreamClosed(f"flow {self.plan.name!r} has failed: {self._errors[0]}")
            error.__cause__ = self._errors[0]
            return error
        return StreamClosed(f"flow {self.plan.name!r} is not running: it is {self._state}")

    # -- running --------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Tells whether sessions can be created."""
        return self._state == "running" and not self._opening and not self._errors

    @property
    def is_stopped(self) -> bool:
        """Tells whether everything has ended."""
        return self._state == "stopped"

    def pump(self) -> None:
        """Runs what is ready on the calling thread, if the flow is inline."""
        self._runner.pump()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every source is done and what it gave has passed, or the flow ends.

        A flow without sources ends when it is stopped.

        Returns:
            False if ``timeout`` seconds passed before.

        Raises:
            FlowFailed: the flow itself failed.
        """
        self._runner.pump()
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._lock:
            while not self._is_over():
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(self._clock, left)
        if self._errors:
            self.stop(drain=False)
        return True

    def wait_for(self, session: Session, timeout: float | None = None) -> bool:
        """Waits until ``session`` is over; False if ``timeout`` seconds passed before."""
        self._runner.pump()
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._lock:
            while session in self._sessions and not self._errors:
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(self._clock, left)
        return True

    def _is_over(self) -> bool:
        if self._errors or self._state == "stopped":
            return True
        is_done = bool(self.sources) and all(s.is_finished for s in self.sources.values())
        return is_done and not self._opened_by_sources

    def held(self) -> dict[str, int]:
        """Returns what is kept of sessions, by place: nothing when no session is open."""
        found = self._wiring.held()
        return {**found, "sessions": len(self._sessions)} if self._sessions else found

    def tensor(self, node: str, port: str) -> TensorSpec | None:
        """Returns what the open unit of a node knows of one item at ``port``; None: nothing."""
        instances = self._wiring.instances.get(node)
        return None if instances is None else instances.tensor(port)

    def statistics(self) -> dict[str, NodeStats]:
        """Returns the figures of every node at this moment."""
        stages = self._wiring.stages.values()
        return {stats.node: stats for stage in stages for stats in stage.statistics()}

    def reload(self, node: str | None) -> None:
        """Lets the shared units of a node (None: of every node that can) take up what is new.

        Runs on the caller's thread while traffic goes on.

        Raises:
            FlowUnitError: the node has nothing to reload, or its unit failed to; it goes on as it
                was.
            StreamClosed: the flow does not run.
        """
        if not self.is_running:
            message = "the flow does not run; nothing can be reloaded"
            raise StreamClosed(message)
        nodes = self._wiring.instances
        for instances in nodes.values() if node is None else [nodes[node]]:
            try:
                instances.reload()
            except NotImplementedError as error:
                if node is not None:
                    raise self._reload_error(instances.plan, error) from error
            except Exception as error:
                raise self._reload_error(instances.plan, error) from error

    def _reload_error(self, plan: UnitPlan, error: Exception) -> FlowUnitError:
        return FlowUnitError.from_exception(
            error, node=plan.node, unit=plan.spec.name, phase="reload"
        )

    # -- ending ---------------------------------------------------------------------------------

    def failed(self, error: FlowUnitError) -> None:
        """Ends the flow because of an error that belongs to no buffer; does not wait."""
        with self._lock:
            if str(error) not in map(str, self._errors):  # not once for each worker of a node
                self._errors.append(error)
            is_noticed = self._beginning or self._state != "running"
            self._changed.wake()
        if not is_noticed:  # else start or stop is under way, and raises it
            logger.error("flow %r fails: %s", self.plan.name, error, exc_info=error.__cause__)
        self._abort()

    def stop(self, drain: bool = True) -> None:
        """Ends the flow: every unit is closed once, every thread joined. May be called again.

        Args:
            drain: What has been sent is still worked on; else it is dropped, and whoever waits for
                results gets `StreamClosed`.

        Raises:
            FlowFailed: a unit failed to open or close, or hangs, or the runtime has a bug. Each
                inner error names its node.
            RuntimeError: it was called in a unit of this flow, on a thread that it would join.
        """
        if self.is_foreign:
            return  # the parent's threads are not ours to end
        self._check_not_inside()
        with self._lock:
            is_new = self._state == "new"
            if is_new:
                self._state = "stopped"
            is_first = self._state == "running"
            if is_first:
                self._state, self.is_draining = "stopping", True
            is_hurried = not (is_first or drain) and self._state == "stopping"
            self._changed.wake()
        if is_new:
            self._abort()  # who waits already for what sources bring is not left to
        if is_hurried:
            self._abort()  # somebody else's stop may be draining: nobody is to wait for that
        with self._lock:
            while not is_first and self._state != "stopped":
                self._changed.wait(self._clock, None)
        if is_first:
            try:
                if drain and not self._errors:
                    self._drain()
            finally:  # Ctrl-C in the middle of it: the threads end all the same
                self._end()
        if self._errors:
            message = f"flow {self.plan.name!r} failed"
            raise FlowFailed(message, list(self._errors))

    def request_stop(self, drain: bool = True) -> None:
        """Has the flow stopped by another thread, and returns at once.

        For signal handlers, and for units of the flow itself: no lock is taken here. A later `stop`
        waits for the end, and raises what went wrong.
        """
        _thread.start_new_thread(self._stop_quietly, (drain,))

    def _stop_quietly(self, drain: bool) -> None:
        try:
            self.stop(drain)
        except FlowFailed as error:  # raised again to whoever calls `stop` or `wait`
            logger.debug("flow %r was asked to stop: %s", self.plan.name, error)

    def _check_not_inside(self) -> None:
        worker = self._runner.worker_here()
        if worker is not None:
            message = (
                f"flow {self.plan.name!r}: stop() was called by node {worker.at.node!r}, "
                "on a thread that stop() waits for; call request_stop() there"
            )
            raise RuntimeError(message)

    def _end(self) -> None:
        try:
            try:
                self._abort()
            except BaseException:  # Ctrl-C in the middle of it: everyone is told all the same
                self._abort()
                raise
            finally:
                with self._lock:
                    while self._is_starting:  # else it would join some, and leave the others
                        self._changed.wait(self._clock, None)
                self._errors += self._runner.join(self.options.stop_timeout)
        finally:
            with self._lock:
                self._state = "stopped"
                self._changed.wake()
        logger.info("flow %r has stopped", self.plan.name)

    def _drain(self) -> None:
        """Ends every input and waits until all has passed, as long as something moves.

        What goes on by itself (events that bring events, rows that go round) may do so for
        ``stop_timeout`` seconds; what is left then has an end.
        """
        self._wiring.drain()
        self._wake_workers()
        for session in list(self._sessions):
            if not session.origin:
                self.entrance.close(session)
        self._runner.pump()
        timeout, now = self.options.stop_timeout, self._clock.now()
        cut_at, looked_at, done = now + timeout, now, self._wiring.done()
        is_cut = False
        while self._sessions and not self._errors:
            with self._lock:
                if self._sessions and not self._errors:
                    left = looked_at + timeout - self._clock.now()
                    self._changed.wait(self._clock, max(0.0, left))
            now = self._clock.now()
            if not is_cut and now >= cut_at and self._sessions:
                is_cut = True
                self._wiring.end_cycles()
                self._runner.pump()
            if now >= looked_at + timeout:
                looked_at, before, done = now, done, self._wiring.done()
                if before == done and self._sessions:
                    text = "flow %r: nothing has moved for %g s; what is left is dropped"
                    logger.warning(text, self.plan.name, timeout)
                    return

    def _abort(self) -> None:
        """Ends every session and wakes every thread; waits for nothing."""
        with self._lock:
            self._is_aborted = True  # a session that a source opens from now on ends at once
            sessions, failure = list(self._sessions), self._closed_error()
        for session in sessions:
            session.cancel(failure)
        self._wiring.close()
        self._wake_workers()

    def _wake_workers(self) -> None:
        for worker in self._workers:
            worker.wake()
