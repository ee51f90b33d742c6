"""The sessions of a queue that have work, in the order of their turns."""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 1.0
"""Seconds after which waiting rows pass the first class, at most a batch in that time."""

Item = TypeVar("Item")


class Turns(deque[Item]):
    """A deque that begins with the items of the first class.

    While there are items of both classes, one of the second class gets a turn in each `PATIENCE`.
    Without items of the first class, callers use ``append`` and ``popleft``, which cost less, and
    set `since` to None.

    Attributes:
        first: The number of items of the first class.
        since: The time since which the second class waits, or None while it has turns.
    """

    def __init__(self) -> None:
        """Creates an empty deque."""
        super().__init__()
        self.first = 0
        self.since: float | None = None

    def add(self, item: Item, *, is_first: bool) -> None:
        """Adds an item behind the items of its class."""
        if is_first:
            self.insert(self.first, item)
            self.first += 1
        else:
            self.append(item)

    def put_back(self, item: Item, *, is_first: bool) -> None:
        """Adds an item before the items of its class."""
        self.insert(0 if is_first else self.first, item)
        self.first += is_first

    def take(self, now: Callable[[], float]) -> Item:
        """Removes and returns the next item; ``now`` returns the time in seconds."""
        if 0 < self.first < len(self):
            time = now()
            if self.since is None:
                self.since = time
            elif time - self.since > PATIENCE:
                self.since = time
                found = self[self.first]
                del self[self.first]
                return found
        else:
            self.since = None
        self.first -= self.first > 0
        return self.popleft()

    def leave(self, item: Item, *, is_first: bool) -> None:
        """Removes an item without its turn."""
        self.remove(item)
        self.first -= is_first

    def clear(self) -> None:
        """Removes all items."""
        super().clear()
        self.first = 0
