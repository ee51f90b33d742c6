"""The clock of all waits in the runtime, and a queue of delayed items."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar


class Clock:
    """The monotonic clock of the system."""

    # Called several times for every batch, so this is the system's function without a wrapper.
    now: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the time in seconds since a fixed moment."""

    def wait(self, condition: threading.Condition, timeout: float | None = None) -> bool:
        """Waits on ``condition``, and returns False if ``timeout`` seconds passed.

        The caller holds the lock of ``condition`` before and after the call. This is also true if a
        Ctrl-C interrupts the wait at any point.
        """
        try:
            return condition.wait(timeout)
        except BaseException:
            if not condition._is_owned():  # type: ignore[attr-defined]
                condition.acquire()
            raise


SYSTEM_CLOCK = Clock()


Item = TypeVar("Item")


class Delayed(Generic[Item]):
    """A queue of items, each with the time at which the item is due.

    The owner protects the queue with a lock. Example with the clock at 100: after ``add("b", 5);
    add("a", 1)``, `remaining` is 1 second. At 102, `due` yields ``"a"``, and `remaining` is 3.
    """

    def __init__(self, clock: Clock) -> None:
        """Makes an empty queue with times of ``clock``."""
        self._clock = clock
        # The number orders items with the same time: the item that was added first comes first.
        self._items: list[tuple[float, int, Item]] = []
        self._numbers = itertools.count()

    def add(self, item: Item, delay: float) -> None:
        """Adds an item that is due in ``delay`` seconds."""
        heappush(self._items, (self._clock.now() + delay, next(self._numbers), item))

    def __bool__(self) -> bool:
        return bool(self._items)

    def due(self) -> Iterator[Item]:
        """Removes and yields the items that are due."""
        while self._items and self._items[0][0] <= self._clock.now():
            yield heappop(self._items)[2]

    def all(self) -> Iterator[Item]:
        """Removes and yields every item in the order of their times."""
        while self._items:
            yield heappop(self._items)[2]

    def clear(self) -> None:
        """Drops every item."""
        self._items.clear()

    def remaining(self) -> float | None:
        """Returns the seconds until the next item is due, or None without items."""
        return self._items[0][0] - self._clock.now() if self._items else None
