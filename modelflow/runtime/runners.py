"""Runners of the stages: a thread for each worker, or the calling thread for all workers."""

import _thread
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from modelflow.errors import FlowUnitError
from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.source import SourceWorker
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.workers.watchdog import Watchdog
from modelflow.runtime.workers.worker import Worker

if TYPE_CHECKING:
    from modelflow.runtime.stages.stage import Stage


class Runner(Protocol):
    """A runner of the workers of a flow."""

    def start(self) -> None:
        """Opens every unit, unless `join` came first.

        Errors go to the owner of the workers.

        Raises:
            FlowUnitError: The system has no more threads.
        """

    def begin(self) -> None:
        """Lets all sources begin when all units are open, if the workers have no threads."""

    def pump(self, *, is_awaited: bool = True) -> None:
        """Processes all ready batches, if the workers have no threads.

        Args:
            is_awaited: True if the caller needs the results on return. If False in a callback of a
                running pump, that pump continues with the new work. This prevents endless
                recursion.
        """

    def wake(self) -> None:
        """Reports new work to the runner."""

    is_threaded: bool
    """True if each worker has a thread of its own."""

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Starts an additional worker. Only for runners with threads.

        Args:
            worker: The worker, which opens its unit itself.
            on_end: Called on the worker's thread when the thread ends for any reason.

        Raises:
            FlowUnitError: The system has no more threads.
        """

    def remove(self, worker: Worker) -> None:
        """Waits for the end of a worker that was asked to end."""

    def worker_here(self) -> Worker | None:
        """Returns the worker whose thread is calling, if any."""

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Ends all workers, and returns an error for each worker that takes over ``timeout`` s.

        Waits for a `start` that is running. No worker is started afterwards.
        """


class ThreadRunner:
    """A runner with a thread for each worker, and the watchdog."""

    is_threaded = True

    def __init__(
        self,
        flow: str,
        workers: Sequence[Worker],
        has_work: Callable[[], bool],
        interval: float,
        clock: Clock,
    ) -> None:
        """Makes the threads. ``has_work`` and ``interval`` are arguments of the watchdog."""
        self._flow = flow
        self._clock = clock
        self._running = [(worker, self._thread(worker)) for worker in workers]
        self._starting = threading.Lock()  # held while threads are started
        self._is_over = False
        stages: dict[str, Stage] = {worker.stage.plan.name: worker.stage for worker in workers}
        self._watchdog = Watchdog(flow, workers, tuple(stages.values()), has_work, interval, clock)
        self.wake = self._watchdog.wake

    def _thread(self, worker: Worker, main: Callable[[], None] | None = None) -> threading.Thread:
        # The threads are daemons only because a unit may hang. All threads are joined; see `join`
        # and `stop_at_exit`.
        return threading.Thread(
            target=main or worker.main,
            name=f"modelflow/{self._flow}/{worker.stage.plan.name}/{worker.number}",
            daemon=True,
        )

    def start(self) -> None:
        """Starts every thread; each thread opens its unit."""

        def start_all() -> None:
            for worker, thread in self._running:
                _start(worker, thread)
            self._watchdog.thread.start()

        self._start_by(start_all)

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Starts the thread of an additional worker."""

        def main() -> None:
            try:
                worker.main()
            finally:
                on_end()

        thread = self._thread(worker, main)

        def start_one() -> None:
            self._running.append((worker, thread))
            try:
                _start(worker, thread)
            except FlowUnitError:
                self._running.remove((worker, thread))
                raise

        if not self._start_by(start_one):
            on_end()

    def _start_by(self, start: Callable[[], None]) -> bool:
        """Starts threads, or returns False without a start if `join` was called.

        Runs ``start`` on a thread of its own, because a Ctrl-C on the main thread may interrupt
        `Thread.start`. The result would be a thread that cannot be joined, or a listed thread that
        never runs.

        Raises:
            Exception: The exception of ``start``.
        """
        found: list[bool | Exception] = []
        # not an `Event`, because a Ctrl-C may interrupt the Python code of its `wait`
        has_ended = threading.Lock()
        has_ended.acquire()

        def main() -> None:
            try:
                with self._starting:
                    if not self._is_over:
                        start()
                    found.append(not self._is_over)
            except Exception as error:  # noqa: BLE001 - raised below
                found.append(error)
            finally:
                has_ended.release()

        try:
            _thread.start_new_thread(main, ())
        except RuntimeError:
            # the system has no more threads, and `start` names the node in its error
            main()
        has_ended.acquire()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def remove(self, worker: Worker) -> None:
        """Waits for the end of a worker that was asked to end."""
        found = [pair for pair in self._running if pair[0] is worker]
        for pair in found:
            pair[1].join()
            self._running.remove(pair)

    def begin(self) -> None:
        """Does nothing, because workers begin on their own threads, which no Ctrl-C interrupts."""

    def pump(self, *, is_awaited: bool = True) -> None:
        """Does nothing, because the threads run."""

    def worker_here(self) -> Worker | None:
        """Returns the worker whose thread is calling, if any."""
        running = list(self._running)
        worker = _busy_here([worker for worker, _ in running])
        if worker is not None:
            return worker
        here = threading.current_thread()
        return next((worker for worker, thread in running if thread is here), None)

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Joins every thread, and returns an error for each thread that does not end in time."""
        with self._starting:
            self._is_over = True
        self._watchdog.stop()
        deadline = self._clock.now() + timeout
        hung = []
        for worker, thread in list(self._running):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.now()))
            # the worker that this thread runs instead is named
            if thread.is_alive() and not worker.is_away:
                hung.append(worker.describe_hung(timeout))
        if self._watchdog.thread.ident is not None:
            self._watchdog.thread.join()
        return hung


class InlineRunner:
    """A runner of all stages on the calling thread, for debugging: a breakpoint stops all units."""

    is_threaded = False

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        # Each worker with an object that is true if the worker may have work.
        self._running: list[tuple[Worker, object]] = []
        # Only one of several calling threads runs the stages. An RLock, because a callback on that
        # thread may call `pump` again.
        self._turn = threading.RLock()
        self._is_pumping = self._is_over = False

    def start(self) -> None:
        """Opens every unit in order.

        After a unit that fails, the others are still opened, because all errors are reported. After
        a Ctrl-C, no further unit is opened.
        """
        with self._turn:
            if self._is_over:
                return
            for worker in self._workers:
                if worker.try_open():
                    self._running.append((worker, _work_of(worker)))
                elif worker.is_given_up:
                    return

    def begin(self) -> None:
        """Lets every source begin."""
        for worker, _ in self._running:
            worker.begin()

    def pump(self, *, is_awaited: bool = True) -> None:
        """Runs every stage until no batch is ready and every source has ended."""
        with self._turn:
            is_nested = self._is_pumping
            if is_nested and not is_awaited:
                return  # the running pump makes another round after the step with this callback
            self._is_pumping = True
            try:
                self._run_all()
            finally:
                self._is_pumping = is_nested

    def _run_all(self) -> None:
        moving = True
        while moving:
            moving = False
            for worker, work in list(self._running):
                while work and worker.try_step():
                    moving = True
                    if isinstance(worker, SourceWorker):
                        break  # first process the rows that the source has brought

    def wake(self) -> None:
        """Does nothing, because `pump` runs all work."""

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Raises `NotImplementedError`, because the workers have no threads."""
        raise NotImplementedError

    def remove(self, worker: Worker) -> None:
        """Raises `NotImplementedError`, because the workers have no threads."""
        raise NotImplementedError

    def worker_here(self) -> Worker | None:
        """Returns the worker whose unit is calling, if any."""
        return _busy_here(self._workers)

    def join(self, timeout: float) -> list[FlowUnitError]:  # noqa: ARG002 - no thread to wait for
        """Closes every unit."""
        with self._turn:
            self._is_over = True
            for worker, _ in self._running:
                worker.finish()
                worker.try_close()
            self._running = []
        return []


def _start(worker: Worker, thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # the limit of threads of the system
        plan = worker.stage.plan.unit
        raise FlowUnitError.from_exception(
            error, node=plan.node, unit=plan.spec.name, phase="start of its thread"
        ) from error


def _work_of(worker: Worker) -> object:
    """Returns an object that is true if a worker may have work.

    For most workers this is the container of the waiting rows. For others it is always True.
    """
    order = worker.stage.order
    is_known = isinstance(order, Fifo) and not isinstance(worker, SourceWorker)
    return order.waiting if is_known else True


def _busy_here(workers: Sequence[Worker]) -> Worker | None:
    """Returns the worker whose unit or slot the calling thread uses now."""
    here = threading.get_ident()
    busy = (worker for worker in workers if worker.phase != "idle" or worker.slot.borrower)
    return next((worker for worker in busy if worker.thread_id == here), None)
