"""The results of a session at an output of the graph, until the reader takes them."""

from collections import deque
from collections.abc import Callable, Sequence

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import Waiting


class Results:
    """The results of a session at an output, limited by the rows that the session may send.

    Example: after ``put([b0, b1], is_last=True)``, two calls of `get` return b0 and b1. The third
    call raises `EndOfStream`.
    """

    __slots__ = (
        "_failure",
        "_holders",
        "_is_last_in",
        "_items",
        "_lock",
        "_ready",
        "is_abandoned",
        "is_ended",
        "taken",
    )

    taken: int
    """The number of results that were taken."""
    is_ended: bool
    """True if the last result has arrived."""
    is_abandoned: bool
    """True if no reader can take results any more, so they are counted and dropped."""

    def __init__(self) -> None:
        self.taken = 0
        self.is_ended = self.is_abandoned = False
        self._is_last_in = False
        self._holders = 0
        self._items: deque[Buffer] = deque()
        self._lock = make_lock("results")
        self._ready = Waiting(self._lock)
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, buffers: Sequence[Buffer], is_last: bool) -> bool:
        """Adds results without waiting.

        Returns:
            True if the caller must call `call_due` after it has released its locks.
        """
        with self._lock:
            if self.is_abandoned or self._failure is not None:
                self.taken += len(buffers)
            else:
                self._items.extend(buffers)
            if is_last:
                self._is_last_in = True
                self.is_ended = not self._holders
            if self._ready.is_awaited:
                self._ready.wake()
            return bool(self._ready.due)

    def call_due(self) -> None:
        """Calls the callbacks whose results have arrived.

        Call this soon after `put`, with no lock held.
        """
        self._ready.call_due()

    def hold(self) -> None:
        """Keeps the results from ending until `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> bool:
        """Ends a `hold`.

        Returns:
            True if the caller must call `call_due` after it has released its locks.
        """
        with self._lock:
            self._holders -= 1
            self.is_ended = self._is_last_in and not self._holders
            self._ready.wake()
            return bool(self._ready.due)

    def fail(self, failure: Exception) -> None:
        """Drops all results, and makes every current and later `get` raise ``failure``."""
        with self._lock:
            self._items.clear()
            if self._failure is None:
                self._failure = failure
            self._ready.wake()
        self._ready.call_due()

    def abandon(self) -> None:
        """Drops all present and future results, because no reader will take them."""
        with self._lock:
            self.is_abandoned = True
            self.taken += len(self._items)
            self._items.clear()

    def get(self, clock: Clock, timeout: float | None) -> Buffer:
        """Returns the next result.

        Raises:
            EndOfStream: All results were taken, and the stream has ended.
            TimeoutError: ``timeout`` seconds passed.
            ModelflowError: The argument of `fail`.
        """
        with self._lock:
            if not self._items:
                self._wait(clock, timeout, lambda: bool(self._items))
                self._raise_if_over()
            self.taken += 1
            return self._items.popleft()

    def get_all(self, clock: Clock, timeout: float | None) -> list[Buffer]:
        """Waits for the end of the stream, and returns all results that were not taken.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
            ModelflowError: The argument of `fail`.
        """
        with self._lock:
            if not self.is_ended:
                self._wait(clock, timeout, lambda: self.is_ended)
            if self._failure is not None:
                # otherwise the traceback of each call is kept
                raise self._failure.with_traceback(None)
            items = list(self._items)
            self._items.clear()
            self.taken += len(items)
            return items

    @property
    def is_ready(self) -> bool:
        """Returns whether `get` would return or raise without a wait."""
        return bool(self._items) or self.is_ended or self._failure is not None

    def wait_ready(self, clock: Clock, timeout: float | None) -> None:
        """Waits until `get` would return or raise without a wait.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
        """
        with self._lock:
            self._wait(clock, timeout, lambda: bool(self._items))

    def _wait(self, clock: Clock, timeout: float | None, is_there: Callable[[], bool]) -> None:
        deadline = None if timeout is None else clock.now() + timeout
        while not (is_there() or self.is_ended or self._failure):
            remaining = None if deadline is None else deadline - clock.now()
            if remaining is not None and remaining <= 0:
                raise TimeoutError(f"no result within {timeout:.3g} s")
            self._ready.wait(clock, remaining)

    def get_nowait(self) -> Buffer | None:
        """Returns the next result, or None if no result is ready; raises as `get` does."""
        with self._lock:
            if not self._items:
                self._raise_if_over()
                return None
            self.taken += 1
            return self._items.popleft()

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once when `get` would not wait, perhaps immediately."""
        with self._lock:
            self._ready.add(callback)
            if self.is_ready:
                self._ready.wake()
        self._ready.call_due()

    def forget(self, callback: Callable[[], None]) -> None:
        """Removes a callback of `on_ready` whose caller no longer waits."""
        self._ready.remove(callback)

    def _raise_if_over(self) -> None:
        if self._items:
            return
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # otherwise the traceback of each call is kept
        if self.is_ended:
            raise EndOfStream("everything has come out")


class SharedResults(Results):
    """Results that are added to the results of another session.

    The results of the other session end when all such objects have ended.
    """

    __slots__ = ("_is_holding", "_whole")

    def __init__(self, whole: Results) -> None:
        super().__init__()
        self._whole = whole
        self._is_holding = True
        whole.hold()

    def __len__(self) -> int:
        return len(self._whole)

    def put(self, buffers: Sequence[Buffer], is_last: bool) -> bool:
        """Adds results to the other session's results; see `Results.put`."""
        is_due = bool(buffers) and self._whole.put(buffers, False)
        return (is_last and self._release()) or is_due

    def call_due(self) -> None:
        """Calls the callbacks that wait for results of the other session."""
        self._whole.call_due()

    def fail(self, failure: Exception) -> None:  # noqa: ARG002 - the other session has its own
        """Ends this object without a failure of the other session."""
        self._release()
        self._whole.call_due()

    def _release(self) -> bool:
        with self._lock:
            is_holding, self._is_holding = self._is_holding, False
        return is_holding and self._whole.release()
