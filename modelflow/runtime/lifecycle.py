"""The start and the end of a flow: threads, units, data in flight, and the interpreter's exit.

The threads of a flow are daemons, because a unit that hangs must not keep the interpreter from
ending. The code that starts a flow stops the flow. `stop_at_exit` stops flows that are still
running at the exit.

Example of a stop: of three sessions, one waits for an event that never comes. `FlowShutdown.drain`
ends the inputs, and two sessions end. Then nothing makes progress, and after ``stop_timeout``
seconds `FlowShutdown.end` drops the third session.

The calling thread imports the modules, in the order of the graph. Units may change ``sys.path`` at
that time, so no other unit is imported or runs meanwhile.
"""

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
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
    """An object that can be stopped, also more than once."""

    @property
    def is_stopped(self) -> bool:
        """Returns whether the object has ended."""

    def stop(self, drain: bool = True) -> None:
        """Ends the object."""

    def disown(self) -> None:
        """Notes that this process is a fork, and has none of the object's threads."""


_running: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_lock = threading.Lock()
_is_registered = False


def stop_at_exit(flow: Stoppable) -> None:
    """Stops ``flow`` at the interpreter's exit, unless the flow was deleted before.

    Plain `atexit` is too late, because the interpreter first joins every thread that is no daemon.
    A thread of an executor that waits in `recv` ends only when its flow ends.
    `threading._register_atexit` runs before that join. `concurrent.futures` of the standard library
    uses the same hook.
    """
    global _is_registered  # noqa: PLW0603 - the interpreter needs only one hook
    with _lock:
        _running.add(flow)
        if not _is_registered:
            threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
            os.register_at_fork(after_in_child=_disown_all)
            _is_registered = True


def _stop_all() -> None:
    with _lock:
        flows = list(_running)
    for flow in flows:
        if flow.is_stopped:
            continue  # `stop` has raised its errors before
        try:
            flow.stop(drain=False)
        except (FlowFailed, RecordingError):
            logger.exception("a flow that was still running at exit failed")


def _disown_all() -> None:
    """Disowns the parent's flows in a forked child, where their locks may stay held forever."""
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = threading.Lock()
    for flow in list(_running):
        flow.disown()
    _running.clear()


StartWatch = Callable[[Callable[[], Sequence[str]]], contextlib.AbstractContextManager[object]]
"""Makes a context for the opening of a flow's units, from a function for `FlowStartup.opening`."""

_watch: StartWatch = contextlib.nullcontext


@contextlib.contextmanager
def watch_starts(watch: StartWatch) -> Iterator[None]:
    """Lets a program show the start of each flow of this process inside the block.

    Args:
        watch: Makes a context that the start of a flow enters before its first unit opens.
    """
    global _watch  # noqa: PLW0603 - a process has one terminal
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before


_INSTEAD = {
    "stop": "call stop(wait=False) there",
    "reconfigure": "call it on a thread of your own, not there",
    **dict.fromkeys(
        ("infer", "map"), "make the inner call a node of the graph, or use another Flow"
    ),
}


class FlowShutdown:
    """The steps for the end of a flow, called by the `Scheduler`."""

    def __init__(
        self,
        life: "FlowState",
        sessions: "SessionRegistry",
        wiring: "Wiring",
        workers: Sequence["Worker"],
        runner: "Runner",
        timeout: float,
    ) -> None:
        """Stores the parts of the flow, and ends none of them.

        Args:
            life: The state of the flow.
            sessions: The sessions of the flow.
            wiring: The stages and queues.
            workers: The workers of all stages.
            runner: The runner of the workers.
            timeout: A limit in seconds for three waits: for events and loops, for progress, and for
                the end of a thread.
        """
        self._life = life
        self._sessions = sessions
        self._wiring = wiring
        self._workers = workers
        self._runner = runner
        self._timeout = timeout

    def check_not_inside(self, call: str) -> None:
        """Checks that a call does not wait for its own thread.

        Raises:
            RuntimeError: A unit of the flow is calling.
        """
        worker = self._runner.worker_here()
        if worker is not None:
            raise RuntimeError(
                f"flow {self._life.name!r}: {call}() was called by node {worker.at.node!r}, "
                f"on a thread that {call}() waits for; {_INSTEAD[call]}"
            )

    def drain(self) -> None:
        """Ends every input, and waits for the end of all sessions while units make calls.

        Events that cause further events, and rows in loops, may continue for ``timeout`` seconds.
        `Wiring.end_cycles` ends them after that time.
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
                    text = "flow %r: no unit finished a call for %g s; the rest is dropped"
                    logger.warning(text, life.name, timeout)
                    return

    def abort(self) -> None:
        """Cancels every session and wakes every thread, without waiting."""
        life = self._life
        with life.lock:
            life.is_aborted = True  # a session that a source opens from now on ends immediately
            sessions, failure = list(self._sessions.known), life.make_closed_error()
        for session in sessions:
            session.cancel(failure)
        self._wiring.close()
        self._wake_workers()

    def end(self, timeout: float | None = None) -> None:
        """Aborts the remaining sessions, joins every thread, and sets the state to ``stopped``.

        Args:
            timeout: Seconds that threads may take to end, or None for the timeout of this object.
        """
        life = self._life
        try:
            try:
                self.abort()
            except BaseException:
                # a Ctrl-C has interrupted `abort`: all sessions and threads must still be reached
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
        for worker in list(self._workers):  # a copy, because `reconfigure` may remove workers
            worker.wake()


class FlowStartup:
    """The start of a flow.

    A stop from another thread, or a Ctrl-C, may come between any two steps. In every case, workers
    that wait until all units are open are woken. If the start was given up, they close their units.
    """

    def __init__(
        self, life: "FlowState", workers: Sequence["Worker"], runner: "Runner", ending: FlowShutdown
    ) -> None:
        """Stores the parts of the flow, and starts none of them.

        Args:
            life: The state of the flow.
            workers: The workers, in the order of the graph.
            runner: The runner of the workers.
            ending: The object that aborts the start after an error.
        """
        self._life = life
        self._workers = workers
        self._runner = runner
        self._ending = ending

    def opening(self) -> list[str]:
        """Returns the nodes whose units are loading or opening, with the unit in brackets.

        Any thread may call this method.
        """
        now = [worker.at for worker in list(self._workers) if worker.phase == "open"]
        names = ((one.node, one.spec.name) for one in now)
        return list(dict.fromkeys(a if a == b else f"{a} ({b})" for a, b in names))

    def open(self, check: Callable[[], None] | None) -> None:
        """Opens all units, and then lets them run.

        Args:
            check: Called when every unit is open, before any unit runs.

        Raises:
            FlowUnitError: The system has no more threads.
        """
        life = self._life
        try:
            with _watch(self.opening):
                for worker in self._workers:
                    if life.state == "running":  # False if another thread has called `stop`
                        worker.try_load()
                self._runner.start()
                life.wait_while(lambda: life.opening and life.goes_on)
            if life.goes_on and check is not None:
                check()
        except BaseException:
            # must come before `is_opening` is cleared, because then units begin to run
            self._ending.abort()
            raise
        finally:  # from here on a unit may begin, run, or be closed
            with life.lock:
                life.is_opening = False
                life.changed.wake()
        self._runner.begin()
        life.wait_while(lambda: life.beginning and life.goes_on)
