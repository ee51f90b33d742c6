"""The connections of a server, their limits and their idle timers."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from modelflow.http.options import ConnectionLimits
from modelflow.http.request import HeaderCache
from modelflow.ipc.loop_queue import LoopQueue

SPARE = 16
"""The most connections beyond the limits, which get answers for health and metrics only."""


class IdleTimer:
    """A timer whose due time can be postponed cheaply. Call the methods on the loop's thread.

    Postponing sets no new timer. When the running timer fires, it checks the due time and, if
    necessary, sets a timer for the remaining time.
    """

    __slots__ = ("_expired", "_loop", "_timer", "due", "looks_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        """Sets no timer yet.

        Args:
            loop: The event loop, whose clock is used.
            expired: Called at the due time.
        """
        self.due: float | None = None
        """The due time in the loop's seconds, or None. May be set to `looks_at` or later."""
        self.looks_at = math.inf
        """The time at which the running timer checks the due time."""
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, seconds: float) -> None:
        """Sets the due time to ``seconds`` from now."""
        self.wait_until(self._loop.time() + seconds)

    def wait_until(self, due: float) -> None:
        """Sets the due time, in the loop's seconds."""
        self.due = due
        if due < self.looks_at:
            self.cancel()
            self._set(due)

    def cancel(self) -> None:
        """Stops the timer. `wait` starts the timer again."""
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
    """A connection of the server."""

    host: str
    """The client's address."""

    def close(self) -> None:
        """Closes the connection."""

    def end(self) -> None:
        """Ends the connection as soon as its requests are answered."""


class Connections:
    """The connections of a server. Call the methods on the server's thread only.

    If there are too many connections, the connection that has waited longest for a request is
    closed. Silent clients can therefore not block other clients.
    """

    def __init__(self, limits: ConnectionLimits, loop_queue: LoopQueue) -> None:
        """Stores the limits, and the loop queue of the server's thread."""
        self.limits = limits
        self.loop_queue = loop_queue
        self.heads = HeaderCache()
        self._most, self._most_of_one = limits.most, limits.most_of_one
        self._open: dict[Member, None] = {}
        self.resting: dict[Member, None] = {}
        """The connections without a running request, longest idle first.

        A connection removes itself when it gets a request.
        """
        self._by_host: Counter[str] = Counter()
        self._spare: dict[Member, None] = {}
        self._ended: asyncio.Future[None] | None = None
        self.on_change: Callable[[], object] | None = None
        """Called when the number of connections changes."""

    def __len__(self) -> int:
        """Returns the number of connections."""
        return len(self._open)

    def __contains__(self, one: object) -> bool:
        """Returns whether an object is an open connection."""
        return one in self._open

    def admit(self, new: Member) -> bool:
        """Adds a connection, or returns False if the server has too many and none is idle.

        Clients of a Unix socket have the host ``""``, and no limit on the connections of one host.
        """
        host = new.host
        is_over = bool(host) and self._by_host[host] >= self._most_of_one
        if is_over and not self._close_one(one for one in self._list_idle() if one.host == host):
            return False
        is_full = len(self._open) - len(self._spare) >= self._most
        if is_full and not self._close_one(self._list_idle()):
            return False
        self._open[new] = self.resting[new] = None
        self._by_host[host] += 1
        self._on_change()
        return True

    def _list_idle(self) -> list[Member]:
        return [one for one in self.resting if one not in self._spare]

    def admit_spare(self, new: Member) -> bool:
        """Adds a connection beyond the limits, or returns False if too many of these are busy.

        Probes and scrapers then get answers while clients hold all connections.
        """
        idle = [one for one in self._spare if one in self.resting]
        if len(self._spare) >= SPARE and not self._close_one(idle):
            return False
        self._open[new] = self.resting[new] = self._spare[new] = None
        self._on_change()
        return True

    def rest(self, one: Member) -> None:
        """Records that a connection waits for its next request."""
        if one in self._open:
            self.resting[one] = None

    def forget(self, one: Member) -> None:
        """Removes a connection that has ended. May be called again."""
        self.resting.pop(one, None)
        if one in self._open:
            del self._open[one]
            if one in self._spare:
                del self._spare[one]
            else:
                self._by_host[one.host] -= 1
                if not self._by_host[one.host]:
                    del self._by_host[one.host]
            if not self._open and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)
            self._on_change()

    def end(self) -> None:
        """Ends each connection as soon as its requests are answered. May be called again."""
        for one in list(self._open):
            one.end()

    async def wait_until_ended(self) -> None:
        """Ends each connection as soon as its requests are answered, and waits for all."""
        self.end()
        if self._open:
            self._ended = self._ended or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)  # a timeout here must not cancel other waiters

    def abort(self) -> None:
        """Closes each connection at once, and wakes the callers of `wait_until_ended`."""
        for one in list(self._open):
            one.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _close_one(self, resting: Iterable[Member]) -> bool:
        for one in resting:
            self.forget(one)
            one.close()
            return True
        return False
