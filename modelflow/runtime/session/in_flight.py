"""``max_in_flight``: the limit on the rows inside the whole graph, applied at its submitter.

Example with a limit of 2: two rows enter, and the third waits. When one row leaves, the third
enters.
"""

from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import Waiting


class InFlight:
    """A counter of the rows of all sessions inside the graph. Safe from any thread."""

    bound: int
    """The number of rows at which entries begin to wait."""
    rows: int
    """The number of rows inside the graph now."""
    is_open: bool
    """True while the limit applies; False when the flow ends."""

    def __init__(self, bound: int, clock: Clock) -> None:
        self.bound = bound
        self.rows = 0
        self.is_open = True
        self._clock = clock
        self._full = 0.0
        self._full_since: float | None = None
        self._lock = make_lock("in_flight")
        self._room = Waiting(self._lock)

    @property
    def is_full(self) -> bool:
        """Returns whether entries must wait."""
        return self.is_open and self.rows >= self.bound

    def full_seconds(self) -> float:
        """Returns the seconds for which the limit was reached."""
        with self._lock:
            since = self._full_since
            return self._full + (0.0 if since is None else self._clock.now() - since)

    def _note(self) -> None:
        """Notes that the limit is reached, or no longer reached."""
        since, now = self._full_since, self._clock.now()
        if self.rows >= self.bound:
            self._full_since = now if since is None else since
        elif since is not None:
            self._full += now - since
            self._full_since = None

    def go_by(self, bound: int) -> None:
        """Sets another limit, which applies immediately."""
        with self._lock:
            self.bound = bound
            self._note()
            self._room.wake()
        self.call_due()

    def add(self, rows: int) -> None:
        """Adds rows that have entered."""
        with self._lock:
            self.rows += rows
            if self.rows >= self.bound and self._full_since is None:
                self._full_since = self._clock.now()

    def remove(self, rows: int) -> None:
        """Subtracts rows of any session that have left. Call `call_due` afterwards."""
        with self._lock:
            self.rows -= rows
            if self._full_since is not None:
                self._note()
            self._room.wake()

    def wait(self, clock: Clock, timeout: float | None, is_over: Callable[[], bool]) -> None:
        """Waits while the graph is full, at most ``timeout`` seconds, or until the next `wake`.

        Does not wait if ``is_over`` returns True because nothing may enter any more. The code that
        changes the result of ``is_over`` calls `wake` afterwards.
        """
        with self._lock:
            if self.is_full and not is_over():
                self._room.wait(clock, timeout)

    def on_room(self, callback: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Calls ``callback`` once when `wait` would not wait, perhaps immediately."""
        with self._lock:
            if self.is_full and not is_over():
                self._room.add(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Removes a callback of `on_room` whose caller no longer waits."""
        self._room.remove(callback)

    def wake(self) -> None:
        """Wakes all waiting threads and callbacks to check again, after a session has ended."""
        with self._lock:
            self._room.wake()
        self.call_due()

    def close(self) -> None:
        """Lets all waiting entries continue because the flow ends."""
        with self._lock:
            self.is_open = False
            self._room.wake()
        self.call_due()

    def call_due(self) -> None:
        """Calls the callbacks that waited for room. The caller must hold no lock."""
        self._room.call_due()
