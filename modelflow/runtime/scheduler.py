"""Owns everything that runs: starts it, ends it, knows its sessions, gathers its errors."""

import itertools
import logging
import threading
from dataclasses import dataclass
from functools import partial

from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed
from modelflow.flowunit.spec import FlowUnitSpec, Kind
from modelflow.plan import ExecutionPlan
from modelflow.runtime.clock import SYSTEM_CLOCK, Clock
from modelflow.runtime.crew import Crew, InlineCrew, ThreadCrew
from modelflow.runtime.network import Network
from modelflow.runtime.session import Session
from modelflow.runtime.source_worker import SourceWorker
from modelflow.runtime.stage import Stage
from modelflow.runtime.stats import NodeStats
from modelflow.runtime.stream_worker import StreamWorker
from modelflow.runtime.worker import Worker

__all__ = ["Scheduler", "SchedulerOptions"]

logger = logging.getLogger("modelflow")


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """How a flow runs, beside its graph.

    Attributes:
        is_inline: Everything runs on the calling thread.
        results_bound: Rows of a session between its entrance and its reader at which `send` waits.
        stop_timeout: Seconds without any progress after which a stop no longer waits.
        watchdog_interval: Seconds in one call of a unit after which its node is named in a warning.
        clock: What every wait goes by.
    """

    is_inline: bool = False
    results_bound: int = 1024
    stop_timeout: float = 10.0
    watchdog_interval: float = 30.0
    clock: Clock = SYSTEM_CLOCK


class Scheduler:
    """A plan while it runs: started once, stopped once. Safe from any thread.

    ``new`` -> ``running`` -> ``stopping`` -> ``stopped``; a failure is noted at once, and brings
    the flow to its end at the next call of `start`, `wait` or `stop`.

    Attributes:
        plan: What runs.
        options: How.
        entrance: Where sessions put their data in.
        sources: The sessions of the sources, by node.
        is_draining: No new work is taken: sources end.
    """

    def __init__(self, plan: ExecutionPlan, options: SchedulerOptions) -> None:
        """Builds stages and queues; starts nothing."""
        self.plan = plan
        self.options = options
        self.is_draining = False
        self._clock = options.clock
        self._changed = threading.Condition()
        self._sessions: dict[Session, None] = {}
        self._numbers = itertools.count()
        self._opened_by_sources = 0
        self._errors: list[Exception] = []
        self._state = "new"
        self._network = Network(plan, options.results_bound, options.clock)
        self.entrance = self._network.entrance
        workers = [
            _worker_type(stage.plan.spec)(stage, n, self, self._clock)
            for stage in self._network.stages.values()
            for n in range(stage.plan.threads)
        ]
        self._opening = len(workers)
        self.sources = {
            worker.stage.plan.node: self._source_session(worker)
            for worker in workers
            if isinstance(worker, SourceWorker)
        }
        self._source_workers = [w for w in workers if isinstance(w, SourceWorker)]
        self._crew: Crew = InlineCrew(workers)
        if not options.is_inline:
            self._crew = ThreadCrew(
                plan.name, workers, self._has_work, options.watchdog_interval, self._clock
            )

    def _source_session(self, worker: SourceWorker) -> Session:
        node = worker.stage.plan.node
        worker.session = self._network.session(node, node, self._finished)
        worker.entrance = self.entrance
        worker.open_session = partial(self._open_session, worker.session)
        self._sessions[worker.session] = None
        return worker.session

    def _open_session(self, source: Session) -> Session:
        """Makes a session for one buffer of a source, which is told of its errors."""
        node = source.origin
        name = f"{node}/{next(self._numbers)}"
        session = self._network.session(name, node, partial(self._opened_finished, source), source)
        with self._changed:
            self._opened_by_sources += 1
            self._sessions[session] = None
        if source.is_cancelled:
            session.cancel(source.failure)
        return session

    def _opened_finished(self, source: Session, session: Session) -> None:
        source.adopt_errors(session)
        with self._changed:
            self._opened_by_sources -= 1
        self._finished(session)

    # -- starting -------------------------------------------------------------------------------

    def start(self) -> None:
        """Opens every unit, each on its worker's thread, and lets them run.

        Raises:
            FlowFailed: a unit did not open; everything has ended.
            StreamClosed: it was started before.
        """
        with self._changed:
            if self._state != "new":
                message = f"flow {self.plan.name!r} is {self._state}; it can be started once"
                raise StreamClosed(message)
            self._state = "running"
        logger.info("flow %r starts: %d nodes", self.plan.name, len(self._network.stages))
        try:
            self._crew.start()
            with self._changed:
                while self._opening and not self._errors:
                    self._clock.wait(self._changed)
            self._begin()
        except BaseException:  # Ctrl-C while a unit loads: leave nothing behind
            self.stop(drain=False)
            raise
        if self._errors:
            self.stop(drain=False)

    def _begin(self) -> None:
        """Lets the sources take what comes from outside: everything is open."""
        for worker in self._source_workers if not self._errors else ():
            try:
                worker.call.unit.begin()
            except Exception as error:  # noqa: BLE001 - whatever the unit raised
                plan = worker.stage.plan
                self.failed(
                    FlowUnitError.from_exception(
                        error, node=plan.node, unit=plan.spec.name, phase="open"
                    )
                )

    def opened(self, worker: Worker) -> None:  # noqa: ARG002 - part of the protocol
        """Notes an open unit (called by its worker)."""
        with self._changed:
            self._opening -= 1
            self._changed.notify_all()

    def wait_until_all_open(self) -> None:
        """Waits until every unit is open, or the flow ends (called by workers)."""
        with self._changed:
            while self._opening and self._state == "running" and not self._errors:
                self._clock.wait(self._changed)

    # -- sessions -------------------------------------------------------------------------------

    def create_session(self) -> Session:
        """Makes a session of the graph's own inputs.

        Raises:
            StreamClosed: the flow does not run, or has no inputs.
        """
        if not self.plan.entries:
            names = ", ".join(map(repr, self.sources))
            message = f"flow {self.plan.name!r} has no input; it is fed by its sources: {names}"
            raise StreamClosed(message)
        session = self._network.session(str(next(self._numbers)), "", self._finished)
        with self._changed:
            if not self.is_running:
                raise self._closed_error()
            self._sessions[session] = None
        self._crew.wake()
        return session

    def cancel(self, session: Session) -> None:
        """Ends a session and drops what is queued for it."""
        if session.cancel():
            self._network.discard(session)

    def _finished(self, session: Session) -> None:
        with self._changed:
            self._sessions.pop(session, None)
            self._changed.notify_all()

    def _has_work(self) -> bool:
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
        self._crew.pump()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every source is done and what it gave has passed, or the flow ends.

        A flow without sources ends when it is stopped.

        Returns:
            False if ``timeout`` seconds passed before.

        Raises:
            FlowFailed: the flow itself failed.
        """
        self._crew.pump()
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._changed:
            while not self._is_over():
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._changed, left)
        if self._errors:
            self.stop(drain=False)
        return True

    def wait_for(self, session: Session, timeout: float | None = None) -> bool:
        """Waits until ``session`` is over; False if ``timeout`` seconds passed before."""
        self._crew.pump()
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._changed:
            while session in self._sessions and not self._errors:
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._changed, left)
        return True

    def _is_over(self) -> bool:
        if self._errors or self._state == "stopped":
            return True
        is_done = bool(self.sources) and all(s.is_finished for s in self.sources.values())
        return is_done and not self._opened_by_sources

    def statistics(self) -> dict[str, NodeStats]:
        """Returns the figures of every node at this moment."""
        return {name: stage.statistics() for name, stage in self._network.stages.items()}

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
        stages = self._network.stages
        for stage in stages.values() if node is None else [stages[node]]:
            try:
                stage.reload()
            except NotImplementedError as error:
                if node is not None:
                    raise self._reload_error(stage, error) from error
            except Exception as error:
                raise self._reload_error(stage, error) from error

    def _reload_error(self, stage: Stage, error: Exception) -> FlowUnitError:
        plan = stage.plan
        return FlowUnitError.from_exception(
            error, node=plan.node, unit=plan.spec.name, phase="reload"
        )

    # -- ending ---------------------------------------------------------------------------------

    def failed(self, error: FlowUnitError) -> None:
        """Ends the flow because of an error that belongs to no buffer; does not wait."""
        with self._changed:
            if str(error) not in map(str, self._errors):  # not once for each worker of a node
                self._errors.append(error)
            is_noticed = self._opening or self._state != "running"
            self._changed.notify_all()
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
        """
        with self._changed:
            if self._state == "new":
                self._state = "stopped"
            is_first = self._state == "running"
            if is_first:
                self._state, self.is_draining = "stopping", True
            self._changed.notify_all()
            while not is_first and self._state != "stopped":
                self._clock.wait(self._changed)
        if is_first:
            try:
                if drain and not self._errors:
                    self._drain()
            finally:  # Ctrl-C in the middle of it: the threads end all the same
                self._end()
        if self._errors:
            message = f"flow {self.plan.name!r} failed"
            raise FlowFailed(message, list(self._errors))

    def _end(self) -> None:
        self._abort()
        try:
            self._errors += self._crew.join(self.options.stop_timeout)
        finally:
            with self._changed:
                self._state = "stopped"
                self._changed.notify_all()
        logger.info("flow %r has stopped", self.plan.name)

    def _drain(self) -> None:
        """Ends every input and waits until all has passed, as long as something moves."""
        self._wake_sources()
        for session in list(self._sessions):
            session.release_senders()
            if not session.origin:
                self.entrance.close(session)
        self._crew.pump()
        done = -1
        with self._changed:
            while self._sessions and not self._errors:
                if self._clock.wait(self._changed, self.options.stop_timeout):
                    continue
                if done == (done := self._network.done()):
                    text = "flow %r: nothing has moved for %g s; what is left is dropped"
                    logger.warning(text, self.plan.name, self.options.stop_timeout)
                    return

    def _abort(self) -> None:
        """Ends every session and wakes every thread; waits for nothing."""
        with self._changed:
            sessions, failure = list(self._sessions), self._closed_error()
        for session in sessions:
            session.cancel(failure)
        self._network.close()
        self._wake_sources()

    def _wake_sources(self) -> None:
        for worker in self._source_workers:
            worker.wake()


def _worker_type(spec: FlowUnitSpec) -> type[Worker]:
    if spec.is_source:
        return SourceWorker
    return StreamWorker if spec.kind is Kind.STREAM else Worker
