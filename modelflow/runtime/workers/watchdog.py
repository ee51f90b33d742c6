"""Warnings that name a node that has data but makes no progress, and the reason.

Example: node "encode" has been in one call for 30 s. The warning names the node and its current
line. Node "resize" has 32 rows, and has not begun a batch for 30 s, because it waits for the queue
of "encode".
"""

import logging
import threading
from collections.abc import Callable, Sequence

from modelflow.runtime.clock import Clock
from modelflow.runtime.stages.stage import Stage
from modelflow.runtime.workers.worker import Worker

logger = logging.getLogger("modelflow")


class Watchdog:
    """A thread that checks the workers every ``interval`` seconds while a session is open.

    Without an open session it sleeps without a time limit, so an idle flow costs nothing.
    """

    thread: threading.Thread
    """The thread, which the owner of this object starts and joins."""

    def __init__(
        self,
        flow: str,
        workers: Sequence[Worker],
        stages: Sequence[Stage],
        has_work: Callable[[], bool],
        interval: float,
        clock: Clock,
    ) -> None:
        """Makes the thread without starting the thread."""
        self._flow = flow
        self._workers = workers
        self._stages = stages
        self._has_work = has_work
        self._interval = interval
        self._clock = clock
        self._condition = threading.Condition()
        self._is_parked = False
        self._is_stopped = False
        self._named: dict[Worker, float] = {}
        self._done: dict[Stage, int] = {}
        self._standing: set[Stage] = set()
        self.thread = threading.Thread(
            target=self._main, name=f"modelflow/{flow}/watchdog", daemon=True
        )

    def wake(self) -> None:
        """Wakes the thread after new work; cheap if the thread is awake."""
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
                # Set the flag before the check. If work arrives between the two, `wake` then sees
                # the flag and notifies this thread.
                self._is_parked = True
                if not self._has_work():
                    self._clock.wait(self._condition)
                    continue
                self._is_parked = False
                self._clock.wait(self._condition, self._interval)
                if not self._is_stopped:
                    self.look()

    def look(self) -> None:
        """Warns of workers that stay in one call, and of stages without progress."""
        now = self._clock.now()
        workers = list(self._workers)  # a copy, because `reconfigure` may remove workers
        for worker in workers:
            since = worker.busy_since
            if since is not None and now - since >= self._interval:
                self._name_call(worker, since, now)
        for stage in self._stages:
            self._look_at(stage, workers)

    def _name_call(self, worker: Worker, since: float, now: float) -> None:
        if self._named.get(worker) == since:
            return
        self._named[worker] = since
        unit = worker.at
        logger.warning(
            "flow %r: node %r (unit %r) has been in %s for %.0f s, %d buffers wait for it%s",
            self._flow,
            unit.node,
            unit.spec.name,
            worker.phase,
            now - since,
            worker.stage.inbox.ready,
            worker.position(),
        )

    def _look_at(self, stage: Stage, workers: Sequence[Worker]) -> None:
        """Warns once of a stage that has rows, but has made no call since the last check."""
        done = stage.figures.count_calls()
        is_standing = stage.inbox.ready > 0 and self._done.get(stage) == done
        self._done[stage] = done
        if not is_standing:
            self._standing.discard(stage)
            return
        if stage in self._standing or any(
            worker.busy_since is not None for worker in workers if worker.stage is stage
        ):
            return
        self._standing.add(stage)
        blocked = stage.outbox.find_backpressure()
        logger.warning(
            "flow %r: node %r has not begun a batch for %.0f s although %d buffers wait for it: %s",
            self._flow,
            stage.plan.name,
            self._interval,
            stage.inbox.ready,
            "it waits for room in the queue of " + ", ".join(map(repr, blocked))
            if blocked
            else "its workers wait",
        )
