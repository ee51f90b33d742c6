"""A moment until when something must have come."""

import asyncio
import math
from collections.abc import Callable

__all__ = ["Expiry"]


class Expiry:
    """Calls somebody when a moment has come that may be put off. For the loop's thread.

    Putting it off costs no timer: the one that is set looks, when it is due, how long it still is.
    """

    __slots__ = ("_expired", "_loop", "_timer", "due", "looks_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        """Sets nothing yet.

        Args:
            loop: Whose time it is.
            expired: Called when the moment has come.
        """
        self.due: float | None = None
        """The moment, in the loop's seconds; None: there is none. May be set to `looks_at`, or
        later."""
        self.looks_at = math.inf
        """When the timer that is set looks whether the moment has come."""
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, seconds: float) -> None:
        """Says that the moment is so many seconds from now."""
        self.wait_until(self._loop.time() + seconds)

    def wait_until(self, due: float) -> None:
        """Says that the moment is this one, in the loop's seconds."""
        self.due = due
        if due < self.looks_at:
            self.cancel()
            self._set(due)

    def cancel(self) -> None:
        """Ends the timer; for good, unless it is waited again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.looks_at = math.inf

    def _set(self, due: float) -> None:
        self._timer = self._loop.call_at(due, self._look)
        self.looks_at = due

    def _look(self) -> None:
        self._timer = None
        self.looks_at = math.inf
        if self.due is None:
            return
        if self._loop.time() < self.due:
            self._set(self.due)
        else:
            self._expired()
