"""Waits of threads for a change of an object, and callbacks for callers that must not block."""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable

from modelflow.runtime.clock import Clock
from modelflow.runtime.locks import Lock

logger = logging.getLogger("modelflow")


class Waiting:
    """The threads and the callbacks that wait for a change of an object guarded by a lock.

    Code that changes the object calls `wake` with the lock held, and `call_due` after the release.
    A callback may execute any code, and may take the same lock. Its exceptions are logged, and do
    not affect other callbacks::

        with self._lock:
            self._items.append(item)
            self._ready.wake()
        self._ready.call_due()
    """

    __slots__ = ("_callbacks", "_condition", "_lock", "count", "due", "is_awaited")

    count: int
    """The number of threads and callbacks that wait now."""
    is_awaited: bool
    """True if a thread or callback waits that no `wake` has woken yet."""
    due: deque[Callable[[], None]] | None
    """The callbacks that `call_due` will call; None before the first callback."""

    def __init__(self, lock: Lock) -> None:
        """Makes an empty object.

        Args:
            lock: The lock that guards the awaited object.
        """
        self.count = 0
        self.is_awaited = False
        self.due = None
        self._lock = lock
        # Most objects are never waited for, so the first wait makes the condition.
        self._condition: threading.Condition | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def wait(self, clock: Clock, timeout: float | None) -> bool:
        """Waits for the next `wake`, and returns False if ``timeout`` seconds passed.

        The caller holds the lock.
        """
        condition = self._condition
        if condition is None:
            condition = self._condition = threading.Condition(self._lock)
        self.is_awaited = True
        self.count += 1
        try:
            return clock.wait(condition, timeout)
        finally:
            self.count -= 1

    def add(self, callback: Callable[[], None]) -> None:
        """Registers ``callback`` for one call after the next `wake`. The caller holds the lock."""
        if self._callbacks is None:
            self._callbacks, self.due = [], deque()
        self._callbacks.append(callback)
        self.is_awaited = True
        self.count += 1

    def remove(self, callback: Callable[[], None]) -> None:
        """Removes a callback whose owner no longer waits. Takes the lock."""
        with self._lock:
            if self._callbacks and callback in self._callbacks:
                self._callbacks.remove(callback)
                self.count -= 1

    def wake(self) -> None:
        """Wakes every thread, and makes every callback due. The caller holds the lock."""
        if self._condition is not None:
            self._condition.notify(sys.maxsize)  # `notify_all` without the cost of a call
        if self._callbacks and self.due is not None:
            self.due.extend(self._callbacks)
            self.count -= len(self._callbacks)
            self._callbacks.clear()
        self.is_awaited = False

    def call_due(self) -> None:
        """Calls the callbacks that are due. The caller must hold no lock."""
        if self.due:
            call_each(self.due, "a callback that waited for a flow raised")


def call_each(due: deque[Callable[[], None]], message: str, *arguments: object) -> None:
    """Removes callbacks from a queue and calls each. The caller must hold no lock.

    Several threads may do this at the same time. Exceptions of callbacks are logged with
    ``message`` and its ``arguments``.
    """
    while due:
        try:
            callback = due.popleft()
        except IndexError:  # another thread has just taken the last callback
            return
        try:
            callback()
        except KeyboardInterrupt:  # the user's Ctrl-C, on the main thread
            raise
        except BaseException:  # also a `SystemExit`, which must not end the caller
            logger.exception(message, *arguments)
