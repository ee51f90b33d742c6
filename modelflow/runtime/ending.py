"""How a flow ends: what was sent still passes, or is dropped; then every thread is joined.

Of three sessions one waits for an event that never comes: `Ending.drain` ends the inputs, two
sessions pass, nothing moves any more, and after ``stop_timeout`` seconds `Ending.end` drops the
third.
"""

import logging
from collections.abc import Sequence

from modelflow.runtime.life import Life
from modelflow.runtime.runners import Runner
from modelflow.runtime.sessions import Sessions
from modelflow.runtime.wiring import Wiring
from modelflow.runtime.worker import Worker

__all__ = ["Ending"]

logger = logging.getLogger("modelflow")

_INSTEAD = {
    "stop": "call request_stop() there",
    "reconfigure": "call it on a thread of your own, not there",
    **dict.fromkeys(
        ("infer", "map"), "make what the unit asks for a node of the graph, or ask another Flow"
    ),
}


class Ending:
    """The end of a flow, in its steps; which of them are taken, and when, the `Scheduler` says."""

    def __init__(
        self,
        life: Life,
        sessions: Sessions,
        wiring: Wiring,
        workers: Sequence[Worker],
        runner: Runner,
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
            message = (
                f"flow {self._life.name!r}: {call}() was called by node {worker.at.node!r}, "
                f"on a thread that {call}() waits for; {_INSTEAD[call]}"
            )
            raise RuntimeError(message)

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
        cut_at, looked_at, done = now + timeout, now, self._wiring.done()
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
                looked_at, before, done = now, done, self._wiring.done()
                if before == done and known:
                    text = "flow %r: nothing has moved for %g s; what is left is dropped"
                    logger.warning(text, life.name, timeout)
                    return

    def abort(self) -> None:
        """Ends every session and wakes every thread; waits for nothing."""
        life = self._life
        with life.lock:
            life.is_aborted = True  # a session that a source opens from now on ends at once
            sessions, failure = list(self._sessions.known), life.closed_error()
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
