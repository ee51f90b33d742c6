"""The connections of a server: how many there may be, and which makes room."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from modelflow.http.known_heads import KnownHeads
from modelflow.http.limits import ConnectionLimits
from modelflow.http.mailbox import Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Connections", "Member"]


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

    def __init__(self, limits: ConnectionLimits, mailbox: Mailbox) -> None:
        """Takes what they may cost, and the mailbox of the server's thread."""
        self.limits = limits
        self.mailbox = mailbox
        self.heads = KnownHeads()
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
        self._changed()
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
            self._changed()

    async def until_ended(self) -> None:
        """Ends each as soon as its requests are answered, and waits until all are."""
        for one in list(self._open):
            one.end()
        if self._open:
            self._ended = self._ended or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)  # others may wait for it, and longer

    def abort(self) -> None:
        """Ends each at once; who waits for their end waits no longer."""
        for one in list(self._open):
            one.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _close_one(self, resting: list[Member]) -> bool:
        for one in resting:
            self.forget(one)
            one.close()
            return True
        return False
