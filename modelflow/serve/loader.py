"""What loads flows and ends them, on threads of its own: nobody who answers requests waits."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from modelflow.device.heap import give_memory_back, settle_heap
from modelflow.errors import Cancelled, EngineError, FlowFailed, StreamClosed, described

if TYPE_CHECKING:
    from modelflow.flow import Flow

__all__ = ["Loader"]

T = TypeVar("T")

_THREADS = 2  # a model that loads slowly does not hold up every other one


class Loader:
    """Threads for what takes long, and every flow that they have started. From any thread."""

    def __init__(self) -> None:
        """Starts no thread before there is work."""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="modelflow/load")
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="modelflow/look")
        self._lock = threading.Lock()
        self._flows: set[Flow] = set()
        self._loading: set[Flow] = set()
        self._is_ending = False

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], object]) -> None:
        """Has something done on one of the threads; dropped when the end has begun.

        Args:
            work: What to do.
            done: Called there with what it has returned or raised.
        """
        self._run(self._pool, work, done)

    def look(self, work: Callable[[], T], done: Callable[[T | Exception], object]) -> None:
        """Does what `run` does, one after the other: what was seen last is told last.

        It has a thread of its own, and so waits for nothing that is being loaded.
        """
        self._run(self._looks, work, done)

    def _run(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
    ) -> None:
        def run() -> None:
            try:
                result: T | Exception = work()
            except BaseException as error:  # noqa: BLE001 - whoever asked is told
                result = error if isinstance(error, Exception) else _told(error)
            done(result)

        with self._lock:
            if not self._is_ending:
                pool.submit(run)

    def load(self, make: "Callable[[], Flow]") -> "Flow":
        """Makes a flow and starts it; for a thread of the loader's.

        Raises:
            Cancelled: the end has begun.
            StreamClosed: it was loaded before.
            Exception: whatever making and starting it raises; nothing of it is left.
        """
        flow = make().build()
        with self._lock:
            self._check()
            if flow in self._flows:
                message = "this flow was loaded before; a flow that is given as such is loaded once"
                raise StreamClosed(message)
            self._flows.add(flow)
            self._loading.add(flow)
        try:
            flow.start()
            with self._lock:
                self._check()  # else `stop` does not ask it to end: it is no longer loading
                self._loading.discard(flow)
        except BaseException:
            self.unload(flow, drain=False)
            raise
        settle_heap()
        return flow

    def unload(self, flow: "Flow", drain: bool = True) -> None:
        """Stops a flow; see `Flow.stop`.

        Raises:
            FlowFailed: the flow itself failed.
        """
        try:
            flow.stop(drain)
        finally:
            with self._lock:
                self._flows.discard(flow)
                self._loading.discard(flow)
        if not self._is_ending:  # else it ends with the process, or soon
            give_memory_back()

    def interrupt(self) -> None:
        """Begins the end: what waits to be loaded is dropped, what is being loaded is told."""
        with self._lock:
            self._is_ending = True
            loading = [*self._loading]
        for pool in (self._pool, self._looks):
            pool.shutdown(wait=False, cancel_futures=True)
        for flow in loading:
            flow.request_stop(drain=False)

    def stop(self, drain: bool = True) -> None:
        """Ends every thread, and every flow. May be called again.

        Raises:
            FlowFailed: flows failed; all have been stopped.
        """
        self.interrupt()
        for pool in (self._pool, self._looks):
            pool.shutdown()
        failures: list[Exception] = []
        for flow in [*self._flows]:
            try:
                self.unload(flow, drain)
            except FlowFailed as failure:
                failures.extend(failure.exceptions)
        if failures:
            message = "flows that were served failed"
            raise FlowFailed(message, failures)

    def _check(self) -> None:
        if self._is_ending:
            message = "the server is being stopped"
            raise Cancelled(message)


def _told(error: BaseException) -> Exception:
    """Says what code of a model has raised to end the process, as ``sys.exit`` does."""
    told = EngineError(f"{described(error)}: raised while it was loaded; a model may end nothing")
    told.__cause__ = error
    return told
