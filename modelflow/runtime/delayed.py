"""What is to happen later, in the order of its time."""

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from modelflow.runtime.clock import Clock

__all__ = ["Delayed"]

Item = TypeVar("Item")


class Delayed(Generic[Item]):
    """Items, each with the moment at which it is due. Its owner guards it with a lock.

    With a clock at 100: ``add("b", 5); add("a", 1)`` makes `left` 1 second; at 102, `due` gives
    ``"a"`` and `left` is 3.
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

    def left(self) -> float | None:
        """Returns the seconds until the next item is due; None: there is none."""
        return self._items[0][0] - self._clock.now() if self._items else None
