"""Until when answers are waited for, where all wait equally long: one timer for all of them."""

import asyncio
from collections.abc import Callable

from modelflow.http.exchange import Exchange

__all__ = ["Patience"]


class Patience:
    """Those that wait for an answer, in the order in which they give up. For the loop's thread."""

    def __init__(self, seconds: float, give_up: Callable[[Exchange], None]) -> None:
        """Takes how long each waits, and what is called with one that has waited so long."""
        self._seconds = seconds
        self._give_up = give_up
        self._until: dict[Exchange, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, exchange: Exchange) -> None:
        """Begins to wait."""
        loop = asyncio.get_running_loop()
        self._until[exchange] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def forget(self, exchange: Exchange) -> None:
        """Waits no more. May be called again."""
        self._until.pop(exchange, None)
        if not self._until and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        for exchange, until in list(self._until.items()):
            if until > now:
                self._timer = loop.call_at(until, self._look)
                return
            del self._until[exchange]
            self._give_up(exchange)
