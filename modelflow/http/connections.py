"""The connections of a server: their limits, their idle timers, and which one makes room."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from modelflow.http.options import ConnectionLimits
from modelflow.http.request import HeaderCache
from modelflow.ipc.loop_queue import LoopQueue


class IdleTimer:
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


class Member(Protocol):
    """One of the connections."""

    host: str
    """The client's address."""

    def close(self) -> None:
        """Ends it; it has no request under way."""

    def end(self) -> None:
        """Ends it as soon as its requests are answered."""


class Connections:
    """The connections of a server. For its thread alone.

    Where there are too many, the one that has waited longest for a request makes room, so that
    those who connect and say nothing shut nobody out.
    """

    def __init__(self, limits: ConnectionLimits, loop_queue: LoopQueue) -> None:
        """Takes what they may cost, and the loop queue of the server's thread."""
        self.limits = limits
        self.loop_queue = loop_queue
        self.heads = HeaderCache()
        self._most, self._most_of_one = limits.most, limits.most_of_one
        self._open: dict[Member, None] = {}
        self.resting: dict[Member, None] = {}
        """Those that wait for their next request, in the order in which they began to; who gets one
        takes itself out."""
        self._by_host: Counter[str] = Counter()
        self._ended: asyncio.Future[None] | None = None
        self.on_change: Callable[[], object] | None = None
        """Called when there is one more, or one less."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._open)

    def __contains__(self, one: object) -> bool:
        """Tells whether something is one of them."""
        return one in self._open

    def admit(self, new: Member) -> bool:
        """Takes up a connection; False where there is no room, and none can be made."""
        host = new.host
        is_over = self._by_host[host] >= self._most_of_one
        if is_over and not self._close_one([one for one in self.resting if one.host == host]):
            return False
        if len(self._open) >= self._most and not self._close_one(list(self.resting)):
            return False
        self._open[new] = self.resting[new] = None
        self._by_host[host] += 1
        self._on_change()
        return True

    def rest(self, one: Member) -> None:
        """Notes that a connection waits for its next request."""
        if one in self._open:
            self.resting[one] = None

    def forget(self, one: Member) -> None:
        """Notes that a connection has ended. May be called again."""
        self.resting.pop(one, None)
        if one in self._open:
            del self._open[one]
            self._by_host[one.host] -= 1
            if not self._by_host[one.host]:
                del self._by_host[one.host]
            if not self._open and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)
            self._on_change()

    def end(self) -> None:
        """Ends each as soon as its requests are answered. May be called again."""
        for one in list(self._open):
            one.end()

    async def wait_until_ended(self) -> None:
        """Ends each as soon as its requests are answered, and waits until all are."""
        self.end()
        if self._open:
            self._ended = self._ended or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)  # others may wait for it, and longer

    def abort(self) -> None:
        """Ends each at once; who waits for their end waits no longer."""
        for one in list(self._open):
            one.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _close_one(self, resting: list[Member]) -> bool:
        for one in resting:
            self.forget(one)
            one.close()
            return True
        return False
