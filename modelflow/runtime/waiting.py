"""Those who wait for one thing to change: threads, and callbacks for those who must not wait."""

import logging
import threading
from collections import deque
from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import Lock

logger = logging.getLogger("modelflow")


class Waiting:
    """The threads and the callbacks that wait for something which one lock guards.

    Whoever changes it calls `wake` while it holds the lock, and `call_due` after it has let go:
    a callback may do whatever its author likes, take the same lock among it, and what it raises is
    logged and harms nobody else::

        with self._lock:
            self._items.append(item)
            self._ready.wake()
        self._ready.call_due()
    """

    __slots__ = ("_callbacks", "_condition", "_lock", "count", "due")

    count: int
    """How many wait now, threads and callbacks."""
    due: deque[Callable[[], None]] | None
    """The callbacks that `call_due` will call; true where there are any."""

    def __init__(self, lock: Lock) -> None:
        """Takes the lock that guards what is waited for."""
        self.count = 0
        self.due = None
        self._lock = lock
        # Most are never waited for: a condition is made for the first who does.
        self._condition: threading.Condition | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def wait(self, clock: Clock, timeout: float | None) -> bool:
        """Waits for the next `wake`, with the lock held; False if ``timeout`` seconds passed."""
        condition = self._condition
        if condition is None:
            condition = self._condition = threading.Condition(self._lock)
        self.count += 1
        try:
            return clock.wait(condition, timeout)
        finally:
            self.count -= 1

    def add(self, callback: Callable[[], None]) -> None:
        """Has ``callback`` called once, behind the next `wake`; with the lock held."""
        if self._callbacks is None:
            self._callbacks, self.due = [], deque()
        self._callbacks.append(callback)
        self.count += 1

    def remove(self, callback: Callable[[], None]) -> None:
        """Forgets a callback whose owner waits no longer; takes the lock."""
        with self._lock:
            if self._callbacks and callback in self._callbacks:
                self._callbacks.remove(callback)
                self.count -= 1

    def wake(self) -> None:
        """Wakes every thread, and makes every callback due; with the lock held."""
        if self._condition is not None:
            self._condition.notify_all()
        if self._callbacks and self.due is not None:
            self.due.extend(self._callbacks)
            self.count -= len(self._callbacks)
            self._callbacks.clear()

    def call_due(self) -> None:
        """Calls the callbacks that are due; with no lock held."""
        if self.due:
            call_each(self.due, "a callback that waited for a flow raised")


def call_each(due: deque[Callable[[], None]], message: str, *arguments: object) -> None:
    """Takes out callbacks and calls each, with no lock held; several threads may do so at once.

    What one raises harms nobody: it is logged with ``message`` and its ``arguments``.
    """
    while due:
        try:
            callback = due.popleft()
        except IndexError:  # another thread has just taken the last one
            return
        try:
            callback()
        except KeyboardInterrupt:  # the user's own, on the main thread
            raise
        except BaseException:  # also a SystemExit: it is nothing to whoever calls here
            logger.exception(message, *arguments)
