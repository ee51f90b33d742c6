"""``max_in_flight``: the bound on the rows inside the whole graph, held at its entrance."""

import threading
from collections.abc import Callable

from modelflow.runtime.clock import Clock

__all__ = ["Admission"]


class Admission:
    """Counts the rows of all sessions inside the graph. Safe from any thread.

    Attributes:
        bound: Rows at which entrants begin to wait.
        in_flight: Rows inside now.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.in_flight = 0
        self._is_open = True
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_full(self) -> bool:
        """Tells whether entrants must wait."""
        return self._is_open and self.in_flight >= self.bound

    def add(self, rows: int) -> None:
        """Notes rows that have entered."""
        with self._lock:
            self.in_flight += rows

    def remove(self, rows: int) -> None:
        """Notes rows that have left (of any session), and wakes those who wait to enter."""
        with self._lock:
            self.in_flight -= rows
            self._wake()

    def wait(self, clock: Clock, timeout: float | None) -> None:
        """Waits while it is full, at most ``timeout`` seconds."""
        with self._lock:
            if self.is_full:
                clock.wait(self._room, timeout)

    def on_room(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when it is not full (perhaps at once)."""
        with self._lock:
            if self.is_full:
                self._callbacks.append(callback)
                return
        callback()

    def close(self) -> None:
        """Lets everyone go on: the flow is ending."""
        with self._lock:
            self._is_open = False
            self._wake()

    def _wake(self) -> None:
        self._room.notify_all()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
