"""Those who run the stages: a thread a worker, or the calling thread for all of them."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from modelflow.errors import FlowUnitError
from modelflow.runtime.clock import Clock
from modelflow.runtime.source_worker import SourceWorker
from modelflow.runtime.watchdog import Watchdog
from modelflow.runtime.worker import Worker

__all__ = ["Crew", "InlineCrew", "ThreadCrew"]


class Crew(Protocol):
    """Runs workers, in one way or another."""

    def start(self) -> None:
        """Opens every unit; errors go to the workers' owner."""

    def pump(self) -> None:
        """Runs what is ready, where nobody else does."""

    def wake(self) -> None:
        """Says that there is work now."""

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Ends everyone, and returns an error for each who has not ended in ``timeout`` s."""


class ThreadCrew:
    """A thread a worker, and the watchdog."""

    def __init__(
        self,
        flow: str,
        workers: Sequence[Worker],
        has_work: Callable[[], bool],
        interval: float,
        clock: Clock,
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._threads = [
            threading.Thread(
                target=worker.main,
                name=f"modelflow/{flow}/{worker.stage.plan.node}/{worker.number}",
                daemon=False,
            )
            for worker in workers
        ]
        self._watchdog = Watchdog(flow, workers, has_work, interval, clock)

    def start(self) -> None:
        """Starts every thread; each opens its unit."""
        for thread in self._threads:
            thread.start()
        self._watchdog.thread.start()

    def pump(self) -> None:
        """Does nothing: the threads run."""

    def wake(self) -> None:
        """Wakes the watchdog."""
        self._watchdog.wake()

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Joins every thread; those that do not end in time are described by an error each."""
        self._watchdog.stop()
        deadline = self._clock.now() + timeout
        hung = []
        for worker, thread in zip(self._workers, self._threads, strict=True):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.now()))
            if thread.is_alive():
                hung.append(worker.hung_error(timeout))
        if self._watchdog.thread.ident is not None:
            self._watchdog.thread.join()
        return hung


class InlineCrew:
    """The calling thread runs every stage, for debugging: one breakpoint stops everything."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._running: list[Worker] = []

    def start(self) -> None:
        """Opens every unit, in order, until one fails."""
        for worker in self._workers:
            if not worker.try_open():
                return
            self._running.append(worker)

    def pump(self) -> None:
        """Runs every stage until nothing is ready and every source is over."""
        moving = True
        while moving:
            moving = False
            for worker in list(self._running):
                if isinstance(worker, SourceWorker):
                    moving = worker.try_step() or moving
                else:
                    while worker.try_step():
                        moving = True

    def wake(self) -> None:
        """Does nothing."""

    def join(self, timeout: float) -> list[FlowUnitError]:  # noqa: ARG002 - nothing waits here
        """Closes every unit."""
        for worker in self._running:
            worker.finish()
            worker.try_close()
        self._running = []
        return []
