"""Until when answers are waited for, where all wait equally long: one timer for all of them."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Patience"]


Waiting = TypeVar("Waiting")


class Patience(Generic[Waiting]):
    """Those that wait for an answer, in the order in which they give up. For the loop's thread."""

    def __init__(self, seconds: float, give_up: Callable[[Waiting], None]) -> None:
        """Takes how long each waits, and what is called with one that has waited so long."""
        self._seconds = seconds
        self._give_up = give_up
        self._until: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: Waiting) -> None:
        """Begins to wait."""
        loop = asyncio.get_running_loop()
        self._until[waiting] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def forget(self, waiting: Waiting) -> None:
        """Waits no more. May be called again."""
        self._until.pop(waiting, None)
        if not self._until and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        for waiting, until in list(self._until.items()):
            if until > now:
                self._timer = loop.call_at(until, self._look)
                return
            del self._until[waiting]
            self._give_up(waiting)
