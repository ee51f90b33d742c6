"""Names the node that has data but does not move."""

import logging
import threading
from collections.abc import Callable, Sequence

from modelflow.runtime.clock import Clock
from modelflow.runtime.worker import Worker

__all__ = ["Watchdog"]

logger = logging.getLogger("modelflow")


class Watchdog:
    """A thread that looks at the workers every ``interval`` seconds while there is work.

    It sleeps without a time limit while no session is open, so an idle flow costs nothing.
    """

    def __init__(
        self,
        flow: str,
        workers: Sequence[Worker],
        has_work: Callable[[], bool],
        interval: float,
        clock: Clock,
    ) -> None:
        self._flow = flow
        self._workers = workers
        self._has_work = has_work
        self._interval = interval
        self._clock = clock
        self._condition = threading.Condition()
        self._is_parked = False
        self._is_stopped = False
        self._named: dict[Worker, float] = {}
        self.thread = threading.Thread(
            target=self._main, name=f"modelflow/{flow}/watchdog", daemon=False
        )

    def wake(self) -> None:
        """Tells it that there is work; cheap while it is awake."""
        if self._is_parked:
            with self._condition:
                self._is_parked = False
                self._condition.notify_all()

    def stop(self) -> None:
        """Ends the thread, which the caller joins."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()

    def _main(self) -> None:
        with self._condition:
            while not self._is_stopped:
                # Parked first, looked second: work that comes between the two finds it parked.
                self._is_parked = True
                if not self._has_work():
                    self._clock.wait(self._condition)
                    continue
                self._is_parked = False
                self._clock.wait(self._condition, self._interval)
                if not self._is_stopped:
                    self.look()

    def look(self) -> None:
        """Warns of every worker that has been in one call for longer than the interval."""
        now = self._clock.now()
        for worker in self._workers:
            since = worker.busy_since
            if since is None or now - since < self._interval or self._named.get(worker) == since:
                continue
            self._named[worker] = since
            plan = worker.stage.plan
            logger.warning(
                "flow %r: node %r (unit %r) has been in %s for %.0f s, %d buffers wait for it%s",
                self._flow,
                plan.node,
                plan.spec.name,
                worker.phase,
                now - since,
                worker.stage.inbox.ready,
                worker.position(),
            )
