"""What one output of the graph has for one session, until somebody takes it."""

from collections import deque
from collections.abc import Callable, Sequence

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import Waiting


class Results:
    """What one output of the graph has for one session; bounded by what the session may send.

    ``put([b0, b1], is_last=True)`` makes two `get` return b0 and b1, and the third raise
    `EndOfStream`.
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
    """How many results were taken."""
    is_ended: bool
    """The last result has come in."""
    is_abandoned: bool
    """Nobody can take results any more: they are counted, and dropped."""

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
        """Adds results; never waits.

        Returns:
            True: `call_due` must follow once the caller holds no lock.
        """
        with self._lock:
            if self.is_abandoned or self._failure is not None:
                self.taken += len(buffers)
            else:
                self._items.extend(buffers)
            if is_last:
                self._is_last_in = True
                self.is_ended = not self._holders
            if self._ready.count:
                self._ready.wake()
            return bool(self._ready.due)

    def call_due(self) -> None:
        """Calls those whose results have come; with no lock held, soon after `put`."""
        self._ready.call_due()

    def hold(self) -> None:
        """Keeps them from ending until `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> bool:
        """Takes back a `hold`; True: `call_due` must follow once the caller holds no lock."""
        with self._lock:
            self._holders -= 1
            self.is_ended = self._is_last_in and not self._holders
            self._ready.wake()
            return bool(self._ready.due)

    def fail(self, failure: Exception) -> None:
        """Makes every `get`, also a waiting one, raise ``failure``; what nobody took is dropped."""
        with self._lock:
            self._items.clear()
            if self._failure is None:
                self._failure = failure
            self._ready.wake()
        self._ready.call_due()

    def abandon(self) -> None:
        """Drops what is there and what comes: nobody will take it."""
        with self._lock:
            self.is_abandoned = True
            self.taken += len(self._items)
            self._items.clear()

    def get(self, clock: Clock, timeout: float | None) -> Buffer:
        """Returns the next result.

        Raises:
            EndOfStream: everything has come out.
            TimeoutError: ``timeout`` seconds passed.
            ModelflowError: what was given to `fail`.
        """
        with self._lock:
            if not self._items:
                self._wait(clock, timeout, lambda: bool(self._items))
                self._raise_if_over()
            self.taken += 1
            return self._items.popleft()

    def get_all(self, clock: Clock, timeout: float | None) -> list[Buffer]:
        """Waits for the end of the stream and returns everything that came before it.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
            ModelflowError: what was given to `fail`.
        """
        with self._lock:
            if not self.is_ended:
                self._wait(clock, timeout, lambda: self.is_ended)
            if self._failure is not None:
                raise self._failure.with_traceback(None)  # else each call's is kept
            items = list(self._items)
            self._items.clear()
            self.taken += len(items)
            return items

    @property
    def is_ready(self) -> bool:
        """Tells whether `get` would not wait."""
        return bool(self._items) or self.is_ended or self._failure is not None

    def wait_ready(self, clock: Clock, timeout: float | None) -> None:
        """Waits until `get` would not.

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
        """Returns the next result, or None if there is none yet; raises as `get` does."""
        with self._lock:
            if not self._items:
                self._raise_if_over()
                return None
            self.taken += 1
            return self._items.popleft()

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when `get` would not wait (perhaps at once)."""
        with self._lock:
            self._ready.add(callback)
            if self.is_ready:
                self._ready.wake()
        self._ready.call_due()

    def forget(self, callback: Callable[[], None]) -> None:
        """Takes back an `on_ready` whose caller waits no longer."""
        self._ready.remove(callback)

    def _raise_if_over(self) -> None:
        if self._items:
            return
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # else each call's is kept
        if self.is_ended:
            raise EndOfStream("everything has come out")


class SharedResults(Results):
    """A way into the results of another session, which end when all such ways have."""

    __slots__ = ("_is_holding", "_whole")

    def __init__(self, whole: Results) -> None:
        super().__init__()
        self._whole = whole
        self._is_holding = True
        whole.hold()

    def __len__(self) -> int:
        return len(self._whole)

    def put(self, buffers: Sequence[Buffer], is_last: bool) -> bool:
        """Adds results to the other session's; see `Results.put`."""
        is_due = bool(buffers) and self._whole.put(buffers, False)
        return (is_last and self._release()) or is_due

    def call_due(self) -> None:
        """Calls those who wait for the other session's results."""
        self._whole.call_due()

    def fail(self, failure: Exception) -> None:  # noqa: ARG002 - the other session has its own
        """Ends this way."""
        self._release()
        self._whole.call_due()

    def _release(self) -> bool:
        with self._lock:
            is_holding, self._is_holding = self._is_holding, False
        return is_holding and self._whole.release()
