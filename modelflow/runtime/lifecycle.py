"""How a flow starts and ends: threads, units, data under way, and the interpreter's exit.

The threads of a flow are daemons, because a unit that hangs must not keep the interpreter from
ending; whoever starts a flow stops it, and who forgets to has it stopped here.

Of three sessions one waits for an event that never comes: `FlowShutdown.drain` ends the inputs, two
sessions pass, nothing moves any more, and after ``stop_timeout`` seconds `FlowShutdown.end` drops
the third.

The calling thread imports the modules, in the graph's order: units may change ``sys.path`` there,
and no other unit imports or runs meanwhile.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from modelflow.errors import FlowFailed, RecordingError

if TYPE_CHECKING:
    from modelflow.runtime.flow_state import FlowState
    from modelflow.runtime.runners import Runner
    from modelflow.runtime.session_registry import SessionRegistry
    from modelflow.runtime.wiring import Wiring
    from modelflow.runtime.workers.worker import Worker

logger = logging.getLogger("modelflow")


class Stoppable(Protocol):
    """What can be stopped, more than once."""

    @property
    def is_stopped(self) -> bool:
        """Tells whether it has ended."""

    def stop(self, drain: bool = True) -> None:
        """Ends it."""

    def disown(self) -> None:
        """Notes that this process is a fork, and has none of its threads."""


_running: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_lock = threading.Lock()
_is_registered = False


def stop_at_exit(flow: Stoppable) -> None:
    """Stops ``flow`` at the interpreter's exit, if it is still there then.

    Plain `atexit` is too late: the interpreter first joins every thread that is no daemon, one of
    an executor that waits in `recv` among them, and such a thread ends when its flow does. The hook
    that runs before that join is the one that `concurrent.futures` of the standard library uses.
    """
    global _is_registered  # noqa: PLW0603 - the hook is the interpreter's, one a process
    with _lock:
        _running.add(flow)
        if not _is_registered:
            threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
            os.register_at_fork(after_in_child=_disown_all)
            _is_registered = True


def _stop_all() -> None:
    for flow in list(_running):
        if flow.is_stopped:
            continue  # what went wrong has been raised
        try:
            flow.stop(drain=False)
        except (FlowFailed, RecordingError):
            logger.exception("a flow that was still running at exit failed")


def _disown_all() -> None:
    """In the child of a fork: its parent's flows are not its own, and their locks may be held."""
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = threading.Lock()
    for flow in list(_running):
        flow.disown()
    _running.clear()


_INSTEAD = {
    "stop": "call stop(wait=False) there",
    "reconfigure": "call it on a thread of your own, not there",
    **dict.fromkeys(
        ("infer", "map"), "make what the unit asks for a node of the graph, or ask another Flow"
    ),
}


class FlowShutdown:
    """The end of a flow, in its steps; which of them are taken, and when, the `Scheduler` says."""

    def __init__(
        self,
        life: "FlowState",
        sessions: "SessionRegistry",
        wiring: "Wiring",
        workers: Sequence["Worker"],
        runner: "Runner",
        timeout: float,
    ) -> None:
        """Ends nothing yet.

        Args:
            life: The flow's.
            sessions: Who is in it.
            wiring: What they wait in.
            workers: Who works on it.
            runner: Who runs them.
            timeout: Seconds that what goes on by itself may go on, that nothing moves, and that a
                thread may take to end.
        """
        self._life = life
        self._sessions = sessions
        self._wiring = wiring
        self._workers = workers
        self._runner = runner
        self._timeout = timeout

    def check_not_inside(self, call: str) -> None:
        """Checks that a call waits for no thread that is waiting for it.

        Raises:
            RuntimeError: a unit of the flow is calling.
        """
        worker = self._runner.worker_here()
        if worker is not None:
            raise RuntimeError(
                f"flow {self._life.name!r}: {call}() was called by node {worker.at.node!r}, "
                f"on a thread that {call}() waits for; {_INSTEAD[call]}"
            )

    def drain(self) -> None:
        """Ends every input and waits until all has passed, as long as something moves.

        What goes on by itself (events that bring events, rows that go round) may do so for
        ``timeout`` seconds; what is left then has an end.
        """
        life, known = self._life, self._sessions.known
        self._wiring.drain()
        self._wake_workers()
        self._sessions.close_inputs()
        self._runner.pump()
        timeout, now = self._timeout, life.clock.now()
        cut_at, looked_at, done = now + timeout, now, self._wiring.count_calls()
        is_cut = False
        while known and not life.errors:
            with life.lock:
                if known and not life.errors:
                    left = looked_at + timeout - life.clock.now()
                    life.changed.wait(life.clock, max(0.0, left))
            now = life.clock.now()
            if not is_cut and now >= cut_at and known:
                is_cut = True
                self._wiring.end_cycles()
                self._runner.pump()
            if now >= looked_at + timeout:
                looked_at, before, done = now, done, self._wiring.count_calls()
                if before == done and known:
                    text = "flow %r: nothing has moved for %g s; what is left is dropped"
                    logger.warning(text, life.name, timeout)
                    return

    def abort(self) -> None:
        """Ends every session and wakes every thread; waits for nothing."""
        life = self._life
        with life.lock:
            life.is_aborted = True  # a session that a source opens from now on ends at once
            sessions, failure = list(self._sessions.known), life.make_closed_error()
        for session in sessions:
            session.cancel(failure)
        self._wiring.close()
        self._wake_workers()

    def end(self, timeout: float | None = None) -> None:
        """Aborts what is left, has every thread joined, and says that the flow has stopped.

        Args:
            timeout: Seconds that threads may take to end; None: as it was made with.
        """
        life = self._life
        try:
            try:
                self.abort()
            except BaseException:  # Ctrl-C in the middle of it: everyone is told all the same
                self.abort()
                raise
            finally:
                life.errors += self._runner.join(self._timeout if timeout is None else timeout)
        finally:
            with life.lock:
                life.end()
                life.changed.wake()
        logger.info("flow %r has stopped", life.name)

    def _wake_workers(self) -> None:
        for worker in self._workers:
            worker.wake()


class FlowStartup:
    """The start of a flow. A stop from another thread, or a Ctrl-C, may come between any two steps.

    Whatever comes, workers that wait until all are open are told: of a start that was given up they
    close what they have opened.
    """

    def __init__(
        self, life: "FlowState", workers: Sequence["Worker"], runner: "Runner", ending: FlowShutdown
    ) -> None:
        """Starts nothing yet.

        Args:
            life: The flow's.
            workers: Its workers, in the graph's order.
            runner: Who runs its workers.
            ending: What gives the start up.
        """
        self._life = life
        self._workers = workers
        self._runner = runner
        self._ending = ending

    def open(self, check: Callable[[], None] | None) -> None:
        """Has the units opened, and then lets them run.

        Args:
            check: Called when every unit is open, before anyone runs.

        Raises:
            FlowUnitError: the system has no more threads.
        """
        life = self._life
        try:
            for worker in self._workers:
                if life.state == "running":  # else a stop has come from another thread
                    worker.try_load()
            self._runner.start()
            life.wait_while(lambda: life.opening and life.goes_on)
            if life.goes_on and check is not None:
                check()
        except BaseException:
            self._ending.abort()  # before anyone runs
            raise
        finally:  # only now may a unit begin, run, or be closed
            with life.lock:
                life.is_opening = False
                life.changed.wake()
        self._runner.begin()
        life.wait_while(lambda: life.beginning and life.goes_on)
