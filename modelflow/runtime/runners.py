"""Those who run the stages: a thread a worker, or the calling thread for all of them."""

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
    """Runs workers, in one way or another."""

    def start(self) -> None:
        """Opens every unit, unless `join` came first; errors go to the workers' owner.

        Raises:
            FlowUnitError: the system has no more threads.
        """

    def begin(self) -> None:
        """Lets sources take what comes from outside, where nobody else does: everything is open."""

    def pump(self, *, is_awaited: bool = True) -> None:
        """Runs what is ready, where nobody else does.

        Args:
            is_awaited: The caller needs it done on return. False, in a callback of a pump that is
                running: that pump goes on with it, so that calls do not nest without end.
        """

    def wake(self) -> None:
        """Says that there is work now."""

    is_threaded: bool
    """Each worker has a thread of its own."""

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Runs one more worker, where they have threads.

        Args:
            worker: It opens its unit.
            on_end: Called on its thread when that ends, however.

        Raises:
            FlowUnitError: the system has no more threads.
        """

    def remove(self, worker: Worker) -> None:
        """Waits until a worker has ended, which was told to."""

    def worker_here(self) -> Worker | None:
        """Returns the worker whose thread is calling, if any."""

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Ends everyone, and returns an error for each who has not ended in ``timeout`` s.

        Waits for a `start` that is under way; behind it nobody is started any more.
        """


class ThreadRunner:
    """A thread a worker, and the watchdog."""

    is_threaded = True

    def __init__(
        self,
        flow: str,
        workers: Sequence[Worker],
        has_work: Callable[[], bool],
        interval: float,
        clock: Clock,
    ) -> None:
        """Makes the threads; ``has_work`` and ``interval`` are the watchdog's."""
        self._flow = flow
        self._clock = clock
        self._running = [(worker, self._thread(worker)) for worker in workers]
        self._starting = threading.Lock()  # held by whoever starts threads
        self._is_over = False
        stages: dict[str, Stage] = {worker.stage.plan.name: worker.stage for worker in workers}
        self._watchdog = Watchdog(flow, workers, tuple(stages.values()), has_work, interval, clock)

    def _thread(self, worker: Worker, main: Callable[[], None] | None = None) -> threading.Thread:
        # Daemons only because of units that hang: everyone is joined, see `join` and `at_exit`.
        return threading.Thread(
            target=main or worker.main,
            name=f"modelflow/{self._flow}/{worker.stage.plan.name}/{worker.number}",
            daemon=True,
        )

    def start(self) -> None:
        """Starts every thread; each opens its unit."""

        def start_all() -> None:
            for worker, thread in self._running:
                _start(worker, thread)
            self._watchdog.thread.start()

        self._start_by(start_all)

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Runs one more worker; it opens its unit."""

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
        """Starts threads; returns False, and starts none, where everyone is to end.

        On a thread of its own: a Ctrl-C, which comes on the main thread, would break `Thread.start`
        off, and leave a thread that nobody can join, or one that is listed and never runs.

        Raises:
            Exception: what ``start`` raised.
        """
        found: list[bool | Exception] = []
        has_ended = threading.Lock()  # not an Event, whose wait is Python code itself
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
        except RuntimeError:  # there are no more threads: `start` says for which node
            main()
        has_ended.acquire()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def remove(self, worker: Worker) -> None:
        """Waits until a worker has ended, which was told to."""
        found = [pair for pair in self._running if pair[0] is worker]
        for pair in found:
            pair[1].join()
            self._running.remove(pair)

    def begin(self) -> None:
        """Does nothing: each worker does, on its thread, where no Ctrl-C comes in the middle."""

    def pump(self, *, is_awaited: bool = True) -> None:
        """Does nothing: the threads run."""

    def wake(self) -> None:
        """Wakes the watchdog."""
        self._watchdog.wake()

    def worker_here(self) -> Worker | None:
        """Returns the worker whose thread is calling, if any."""
        running = list(self._running)
        worker = _busy_here([worker for worker, _ in running])
        if worker is not None:
            return worker
        here = threading.current_thread()
        return next((worker for worker, thread in running if thread is here), None)

    def join(self, timeout: float) -> list[FlowUnitError]:
        """Joins every thread; those that do not end in time are described by an error each."""
        with self._starting:
            self._is_over = True
        self._watchdog.stop()
        deadline = self._clock.now() + timeout
        hung = []
        for worker, thread in list(self._running):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.now()))
            if thread.is_alive() and not worker.is_away:  # whom it stands in for is named
                hung.append(worker.describe_hung(timeout))
        if self._watchdog.thread.ident is not None:
            self._watchdog.thread.join()
        return hung


class InlineRunner:
    """The calling thread runs every stage, for debugging: one breakpoint stops everything."""

    is_threaded = False

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        # Each with what is true where it may have something to do.
        self._running: list[tuple[Worker, object]] = []
        # Of several calling threads one runs the stages; a callback that it calls may pump again.
        self._turn = threading.RLock()
        self._is_pumping = self._is_over = False

    def start(self) -> None:
        """Opens every unit, in order, also behind one that fails: each says what is wrong.

        Behind a Ctrl-C no more.
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
        """Runs every stage until nothing is ready and every source is over."""
        with self._turn:
            is_nested = self._is_pumping
            if is_nested and not is_awaited:
                return  # the step that has called back is followed by another round
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
                        break  # first what it has brought

    def wake(self) -> None:
        """Does nothing."""

    def add(self, worker: Worker, on_end: Callable[[], None]) -> None:
        """Is not called: nobody has a thread."""
        raise NotImplementedError

    def remove(self, worker: Worker) -> None:
        """Is not called: nobody has a thread."""
        raise NotImplementedError

    def worker_here(self) -> Worker | None:
        """Returns the worker whose unit is calling, if any."""
        return _busy_here(self._workers)

    def join(self, timeout: float) -> list[FlowUnitError]:  # noqa: ARG002 - nothing waits here
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
    except RuntimeError as error:  # the system's limit of threads
        plan = worker.stage.plan.unit
        raise FlowUnitError.from_exception(
            error, node=plan.node, unit=plan.spec.name, phase="start of its thread"
        ) from error


def _work_of(worker: Worker) -> object:
    """Returns what is true where a worker may have something to do: mostly it is known."""
    order = worker.stage.order
    is_known = isinstance(order, Fifo) and not isinstance(worker, SourceWorker)
    return order.waiting if is_known else True


def _busy_here(workers: Sequence[Worker]) -> Worker | None:
    """Returns the worker whose unit, or slot, the calling thread is in."""
    here = threading.get_ident()
    busy = (worker for worker in workers if worker.phase != "idle" or worker.slot.borrower)
    return next((worker for worker in busy if worker.thread_id == here), None)
