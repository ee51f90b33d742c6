"""Until when answers are waited for, where all wait equally long: one timer for all of them."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["Patience"]


Waiting = TypeVar("Waiting")


class Patience(Generic[Waiting]):
    """Those that wait for an answer, in the order in which they give up. For the loop's thread.

    Attributes:
        seconds: How long each waits.
        until: Until when, in the seconds of `time.monotonic`; who adds to it without `add` looks
            whether there is a `timer`, which `begin` sets.
        timer: When it is looked who gives up; None: nobody waits.
    """

    def __init__(self, seconds: float, give_up: Callable[[Waiting], None]) -> None:
        """Takes how long each waits, and what is called with one that has waited so long."""
        self.seconds = seconds
        self._give_up = give_up
        self.until: dict[Waiting, float] = {}
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Has it looked who gives up, when the first may."""
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self._look)

    def add(self, waiting: Waiting) -> None:
        """Begins to wait."""
        self.until[waiting] = monotonic() + self.seconds
        if self.timer is None:
            self.begin()

    def forget(self, waiting: Waiting) -> None:
        """Waits no more. May be called again."""
        self.until.pop(waiting, None)
        if not self.until and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _look(self) -> None:
        self.timer = None
        now = monotonic()
        for waiting, until in list(self.until.items()):
            if waiting not in self.until:  # one that gave up has taken it along
                continue
            if until > now:
                self.timer = asyncio.get_running_loop().call_later(until - now, self._look)
                return
            del self.until[waiting]
            self._give_up(waiting)
