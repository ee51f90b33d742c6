"""What loads flows and ends them, on threads of its own: nobody who answers requests waits.

What is loaded is foreign code, which may not come back. So each load has a thread of its own, whose
result is waited for as long as whoever asked for it wants; what does not come back holds up neither
the other loads nor the end.
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
"""How long what is told to end may take; what takes longer is left where it is."""

# A flow says then which of its nodes has not ended.
_LAST_OF_FLOW = 0.8 * LAST_SECONDS


class Loader:
    """Threads for what takes long, and every flow that they have started. From any thread."""

    def __init__(self, look_seconds: float = 60.0) -> None:
        """Starts no thread before there is work.

        Args:
            look_seconds: How long a look at the disk may take; see `look`.
        """
        self._look_seconds = look_seconds
        self._turns = Turns()
        self._looks: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = (
            queue.SimpleQueue()
        )
        self._is_looking = False
        self._seen: queue.SimpleQueue[Any] = queue.SimpleQueue()  # of the look that is made
        self._lock = threading.Lock()
        self._works: set[Work] = set()
        self._flows: set[Flow] = set()
        self._loading: dict[Flow, threading.Thread] = {}
        self._given_up: dict[Version, list[Work]] = {}
        self._unwanted: set[threading.Thread] = set()  # what they load nobody wants any more
        self._is_ending = False
        self._failures: list[Exception] | None = None  # of the end

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        weight: int = 0,
    ) -> Work | None:
        """Has something done on a thread of its own; dropped when the end has begun.

        Args:
            work: What to do.
            done: Called there with what it has returned or raised.
            weight: Of loads, which wait for their turn (see `Turns`); 0: it waits for nothing.

        Returns:
            What can be asked how it goes; None: the end has begun.
        """

        def run() -> None:
            try:
                if weight:
                    with self._turns.take(weight):
                        result = outcome_of(work)
                else:
                    result = outcome_of(work)
            except Cancelled:  # before its turn
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
        """Does what `run` does, one after the other: what was seen last is told last.

        It waits for nothing that is being loaded. A look that takes too long (a disk of the
        network that does not answer) is told as such, and the next one begins.
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
        """Makes a flow and starts it; for a thread of the loader's.

        Raises:
            Cancelled: the end has begun, or nobody wants it any more (see `cancel`); nothing of it
                is left, except what hangs.
            StreamClosed: it was loaded before.
            Exception: whatever making and starting it raises; nothing of it is left.
        """
        self.check_wanted()
        flow = make()
        flow.scheduler.check_process()  # it is made here, so that `cancel` has something to stop
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
                self._check()  # else `stop` does not ask it to end: it is no longer loading
                self._loading.pop(flow, None)
        except Cancelled as error:
            with suppress(FlowFailed):  # it hangs: whoever has given it up has said so
                self.unload(flow, drain=False)
            raise error from None
        except BaseException:
            self.unload(flow, drain=False)
            raise
        settle_heap()
        return flow

    def cancel(self, work: Work) -> None:
        """Notes that nobody wants what a thread loads; its load raises `Cancelled` when it can."""
        with self._lock:
            if work in self._works:
                self._unwanted.add(work.thread)

    def check_wanted(self) -> None:
        """Checks that somebody wants what the calling thread loads.

        Raises:
            Cancelled: the end has begun, or `cancel` was called.
        """
        with self._lock:
            self._check()

    def give_up(self, work: Work, version: "Version") -> str:
        """Has what a thread is loading end, if it can; does what `cancel` does.

        Args:
            work: What loads it.
            version: Of which model it is a load.

        Returns:
            Where it stands, for a message.
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
        """Returns where each load of a version that was given up hangs; the last one last."""
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
        if not self._is_ending:  # else it ends with the process, or soon
            give_memory_back()

    def interrupt(self) -> None:
        """Begins the end: what waits to be loaded is dropped, what is being loaded is told."""
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
        """Ends every flow, and waits for every thread, but not for long. May be called again.

        Args:
            drain_seconds: How long flows may work on what they have; `LAST_SECONDS` later it
                returns, whatever hangs.

        Raises:
            FlowFailed: flows failed, or hang.
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
        return [*{str(one): one for one in failures}.values()]  # a load, and the end of its flow

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
            raise Cancelled("nobody wants it any more")


def _ending() -> Cancelled:
    return Cancelled("the server is being stopped")


def _put_outcome(work: Callable[[], T], seen: "queue.SimpleQueue[Any]") -> None:
    seen.put(outcome_of(work))
