"""The slowest requests of each second, of all that have ended in it."""

import heapq
import itertools
import threading
from typing import Generic, TypeVar

R = TypeVar("R")


class SlowRequests(Generic[R]):
    """Keeps the slowest of each second; from any thread."""

    def __init__(self, most: int) -> None:
        """Begins with none; keeps at most so many a second."""
        self._most = most
        self._lock = threading.Lock()
        self._numbers = itertools.count()  # of two that took as long the first counts as faster
        self._seconds: dict[int, list[tuple[float, int, R, float]]] = {}

    def add(self, request: R, ended: float, seconds: float) -> None:
        """Takes a request that ended at ``ended``, by the clock, and took so many seconds."""
        entry = (seconds, next(self._numbers), request, ended)
        with self._lock:
            found = self._seconds.setdefault(int(ended), [])
            if len(found) < self._most:
                heapq.heappush(found, entry)
            else:
                heapq.heappushpop(found, entry)

    def take(self, now: float) -> list[tuple[R, float]]:
        """Takes out those of the seconds that are over, each with when it ended, in that order."""
        with self._lock:
            over = [second for second in self._seconds if second + 1 <= now]
            found = [entry for second in over for entry in self._seconds.pop(second)]
        return sorted(((request, ended) for _, _, request, ended in found), key=lambda one: one[1])
