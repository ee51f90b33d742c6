"""The loader: loads and stops flows on separate threads, so requests never wait for a load.

A load runs foreign code, which may never return. Each load therefore has its own thread, and the
caller decides how long to wait for the result. A load that hangs delays neither other loads nor
the end of the server.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from modelflow.device.heap import give_memory_back, settle_heap
from modelflow.errors import (
    Cancelled,
    ConfigError,
    EngineError,
    FlowFailed,
    StreamClosed,
)
from modelflow.serve.repository.work import Turns, Work, outcome_of

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.serve.activity import Version

logger = logging.getLogger(__name__)

T = TypeVar("T")

LAST_SECONDS = 1.5
"""The seconds that a load or a flow may take to end. After that, the loader leaves it running."""

# Shorter, because the flow then still has time to name the node that has not ended.
_LAST_OF_FLOW = 0.8 * LAST_SECONDS


class Loader:
    """The threads for slow work, and every flow that they have started. From any thread."""

    def __init__(self, look_seconds: float = 60.0) -> None:
        """Creates a loader without threads.

        Args:
            look_seconds: The seconds that a scan of the disk may take; see `look`.
        """
        self._look_seconds = look_seconds
        self._turns = Turns()
        self._looks: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = (
            queue.SimpleQueue()
        )
        self._is_looking = False
        self._seen: queue.SimpleQueue[Any] = queue.SimpleQueue()  # the outcome of the current scan
        self._lock = threading.Lock()
        self._works: set[Work] = set()
        self._flows: set[Flow] = set()
        self._loading: dict[Flow, threading.Thread] = {}
        self._given_up: dict[Version, list[Work]] = {}
        self._unwanted: set[threading.Thread] = set()  # whose loads are no longer wanted
        self._is_ending = False
        self._failures: list[Exception] | None = None  # of `stop`

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        weight: int = 0,
    ) -> Work | None:
        """Runs a function on a new thread. Does nothing after `interrupt`.

        Args:
            work: The function.
            done: Called on the new thread with the result or the exception.
            weight: The weight of a load, which waits for its turn (see `Turns`). 0 for other work,
                which starts at once.

        Returns:
            The running work. None after `interrupt`, or if no thread could start.
        """

        def run() -> None:
            try:
                if weight:
                    with self._turns.take(weight):
                        result = outcome_of(work)
                else:
                    result = outcome_of(work)
            except Cancelled:  # `interrupt` was called before its turn
                return
            finally:
                self._works.discard(made)
                self._unwanted.discard(made.thread)
            done(result)

        made = Work("load" if weight else "unload", run)
        try:
            return made if self._start(made) else None
        except RuntimeError as error:  # the system has no more threads
            done(error)
            return None

    def look(self, work: Callable[[], T], done: Callable[[T | Exception], object]) -> None:
        """Runs scans of the disk in sequence, so their results arrive in order.

        A scan does not wait for loads. A scan that takes too long (a network disk that does not
        answer) is reported as an error, and the next scan begins.
        """
        with self._lock:
            if self._is_ending:
                return
            is_first, self._is_looking = not self._is_looking, True
            self._looks.put((work, done))
        if is_first:
            self._start(Work("look", self._look_on))

    def _look_on(self) -> None:
        while (found := self._looks.get()) is not None:
            work, done = found
            seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self._seen = seen
            look = Work("look once", partial(_put_outcome, work, seen))
            if not self._start(look):
                return
            try:
                result = seen.get(timeout=self._look_seconds)
            except queue.Empty:
                message = (
                    f"looking at the disk has not ended in {self._look_seconds:g} s; it is at "
                    f"{look.position()}"
                )
                result = ConfigError(message)
            finally:
                self._works.discard(look)
            done(result)

    def _start(self, work: Work) -> bool:
        with self._lock:
            if self._is_ending:
                return False
            work.thread.start()
            self._works.add(work)
        return True

    def load(self, make: "Callable[[], Flow]") -> "Flow":
        """Creates and starts a flow. For a thread of the loader.

        Raises:
            Cancelled: `interrupt` or `cancel` was called. The flow is stopped, except for nodes
                that hang.
            StreamClosed: the flow was loaded before.
            Exception: an error of creating or starting the flow. The flow is stopped.
        """
        self.check_wanted()
        flow = make()
        flow.scheduler.check_process()  # created here, because `give_up` needs a scheduler to stop
        with self._lock:
            self._check()
            if flow in self._flows:
                raise StreamClosed(
                    "this flow was loaded before; a flow that is given as such is loaded once"
                )
            self._flows.add(flow)
            self._loading[flow] = threading.current_thread()
        try:
            flow.start()
            with self._lock:
                self._check()  # checked under the lock: `interrupt` stops only flows in `_loading`
                self._loading.pop(flow, None)
        except Cancelled as error:
            with suppress(FlowFailed):  # the flow hangs, and `give_up` has reported it
                self.unload(flow, drain=False)
            raise error from None
        except BaseException:
            self.unload(flow, drain=False)
            raise
        settle_heap()
        return flow

    def cancel(self, work: Work) -> None:
        """Marks a load as unwanted. The load raises `Cancelled` at its next check."""
        with self._lock:
            if work in self._works:
                self._unwanted.add(work.thread)

    def check_wanted(self) -> None:
        """Checks that the load of the calling thread is still wanted.

        Raises:
            Cancelled: `interrupt` or `cancel` was called.
        """
        with self._lock:
            self._check()

    def give_up(self, work: Work, version: "Version") -> str:
        """Cancels a load, and asks its flows to stop.

        Args:
            work: The load.
            version: The name and version of the model.

        Returns:
            The code position at which the load hangs, for a message.
        """
        self.cancel(work)
        with self._lock:
            found = [flow for flow, thread in self._loading.items() if thread is work.thread]
            work.flows = found
            self._given_up.setdefault(version, []).append(work)
        where = work.find_hanging()
        for flow in found:
            flow.stop(drain=False, timeout=_LAST_OF_FLOW, wait=False)
        return where

    def list_hanging(self, version: "Version") -> list[str]:
        """Returns the code positions at which given-up loads of a version hang, oldest first."""
        with self._lock:
            works = self._given_up.pop(version, [])
            found = {work: where for work in works if (where := work.find_hanging())}
            if found:
                self._given_up[version] = [*found]
        return [*found.values()]

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
                self._loading.pop(flow, None)
        if not self._is_ending:  # else the process ends soon
            give_memory_back()

    def interrupt(self) -> None:
        """Cancels waiting loads, and asks running loads to stop."""
        with self._lock:
            is_first, self._is_ending = not self._is_ending, True
            loading = [*self._loading]
        if is_first:
            self._turns.end()
            self._looks.put(None)
            self._seen.put(_ending())
        for flow in loading:
            flow.stop(drain=False, timeout=_LAST_OF_FLOW, wait=False)

    def stop(self, drain_seconds: float = 0.0) -> None:
        """Stops every flow, and waits a limited time for every thread. May be called again.

        Args:
            drain_seconds: The seconds that flows have to finish their work. The method returns
                `LAST_SECONDS` later, even if a flow hangs.

        Raises:
            FlowFailed: flows failed or hang.
        """
        if self._failures is None:
            self._failures = self._end_all(drain_seconds)
        if self._failures:
            raise FlowFailed("flows that were served failed", self._failures)

    def _end_all(self, drain_seconds: float) -> list[Exception]:
        self.interrupt()
        until = time.monotonic() + drain_seconds
        failures: list[Exception] = []
        with self._lock:
            flows = [*self._flows]
        ends = {flow: self._end(flow, drain_seconds, failures) for flow in flows}
        for end in ends.values():
            end.thread.join(max(0.0, until - time.monotonic()))
        until = max(until, time.monotonic()) + LAST_SECONDS
        for flow, end in ends.items():
            if end.thread.is_alive():
                flow.stop(drain=False, timeout=_LAST_OF_FLOW, wait=False)
        for work in [*ends.values(), *self._works]:
            work.thread.join(max(0.0, until - time.monotonic()))
            if work.thread.is_alive():
                where = work.find_hanging()
                failures.append(EngineError(f"a model has not ended, and is left; {where}"))
        # Without duplicates, because a load and the end of its flow may report the same error.
        return [*{str(one): one for one in failures}.values()]

    def _end(self, flow: "Flow", drain_seconds: float, failures: list[Exception]) -> Work:
        def end() -> None:
            try:
                flow.stop(drain_seconds > 0, timeout=drain_seconds + _LAST_OF_FLOW)
            except FlowFailed as failure:
                failures.extend(failure.exceptions)

        work = Work("end", end)
        work.flows = [flow]
        work.thread.start()
        return work

    def _check(self) -> None:
        if self._is_ending:
            raise _ending()
        if threading.current_thread() in self._unwanted:
            raise Cancelled("the load is no longer wanted")


def _ending() -> Cancelled:
    return Cancelled("the server is being stopped")


def _put_outcome(work: Callable[[], T], seen: "queue.SimpleQueue[Any]") -> None:
    seen.put(outcome_of(work))
