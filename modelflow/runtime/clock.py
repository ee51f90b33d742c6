"""The clock that every wait of the runtime goes by, and events ordered by their time."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar


class Clock:
    """The system's monotonic clock."""

    # Every batch asks several times: this is the system's own call, without one of ours around it.
    now: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the time in seconds since some fixed moment."""

    def wait(self, condition: threading.Condition, timeout: float | None = None) -> bool:
        """Waits on ``condition`` (held by the caller); False if ``timeout`` seconds passed.

        The caller holds it again whatever happens: a Ctrl-C may come before it has been let go.
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
    """Items, each with the moment at which it is due. Its owner guards it with a lock.

    With a clock at 100: ``add("b", 5); add("a", 1)`` makes `remaining` 1 second; at 102, `due`
    gives ``"a"`` and `remaining` is 3.
    """

    def __init__(self, clock: Clock) -> None:
        """Makes an empty one, which goes by ``clock``."""
        self._clock = clock
        # The number decides among equals: the first to be added.
        self._items: list[tuple[float, int, Item]] = []
        self._numbers = itertools.count()

    def add(self, item: Item, delay: float) -> None:
        """Adds an item that is due in ``delay`` seconds."""
        heappush(self._items, (self._clock.now() + delay, next(self._numbers), item))

    def __bool__(self) -> bool:
        return bool(self._items)

    def due(self) -> Iterator[Item]:
        """Takes out the items whose time has come."""
        while self._items and self._items[0][0] <= self._clock.now():
            yield heappop(self._items)[2]

    def all(self) -> Iterator[Item]:
        """Takes out every item, in the order of their times."""
        while self._items:
            yield heappop(self._items)[2]

    def clear(self) -> None:
        """Drops every item."""
        self._items.clear()

    def remaining(self) -> float | None:
        """Returns the seconds until the next item is due; None: there is none."""
        return self._items[0][0] - self._clock.now() if self._items else None
