"""``max_in_flight``: the bound on the rows inside the whole graph, held at its submitter.

With a bound of 2: two rows enter, the third waits; one row leaves, and the third enters.
"""

from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import make_lock
from modelflow.runtime.waiting import Waiting


class InFlight:
    """Counts the rows of all sessions inside the graph. Safe from any thread."""

    bound: int
    """Rows at which entries begin to wait."""
    rows: int
    """Rows inside now."""
    is_open: bool
    """The bound holds; not any more when the flow is ending."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.rows = 0
        self.is_open = True
        self._lock = make_lock("in_flight")
        self._room = Waiting(self._lock)

    @property
    def is_full(self) -> bool:
        """Tells whether entries must wait."""
        return self.is_open and self.rows >= self.bound

    def go_by(self, bound: int) -> None:
        """Goes by another bound from now on."""
        with self._lock:
            self.bound = bound
            self._room.wake()
        self.call_due()

    def add(self, rows: int) -> None:
        """Notes rows that have entered."""
        with self._lock:
            self.rows += rows

    def remove(self, rows: int) -> None:
        """Notes rows that have left, of any session; `call_due` belongs behind it."""
        with self._lock:
            self.rows -= rows
            self._room.wake()

    def wait(self, clock: Clock, timeout: float | None, is_over: Callable[[], bool]) -> None:
        """Waits while it is full, at most ``timeout`` seconds, and not longer than the next `wake`.

        Not at all where ``is_over`` says that nothing is to enter any more: whoever makes it so
        calls `wake` afterwards.
        """
        with self._lock:
            if self.is_full and not is_over():
                self._room.wait(clock, timeout)

    def on_room(self, callback: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Calls ``callback`` once, when `wait` would not wait (perhaps at once)."""
        with self._lock:
            if self.is_full and not is_over():
                self._room.add(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Takes back an `on_room` whose caller waits no longer."""
        self._room.remove(callback)

    def wake(self) -> None:
        """Has everyone who waits look again: some session has ended."""
        with self._lock:
            self._room.wake()
        self.call_due()

    def close(self) -> None:
        """Lets everyone go on: the flow is ending."""
        with self._lock:
            self.is_open = False
            self._room.wake()
        self.call_due()

    def call_due(self) -> None:
        """Calls those who were waiting for room; with no lock held."""
        self._room.call_due()
