"""The bodies of requests, within bounds."""

import threading
from dataclasses import dataclass
from http import HTTPStatus

from modelflow.http.reply import Reply, reply_of_status

__all__ = ["Body", "BodyBudget", "BodyLimits", "RefusedError"]

# A part that is smaller is copied behind the one before: a body may come byte by byte.
_OWN_PART = 1 << 10


class RefusedError(Exception):
    """A request is not worked on.

    Attributes:
        reply: What it is answered.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class BodyBudget:
    """The bytes that all bodies together may take. Safe from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Takes ``size`` bytes; False, and nothing is taken, where there are not so many left."""
        with self._lock:
            if self._taken + size > self._most:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        """Gives ``size`` bytes back."""
        with self._lock:
            self._taken -= size


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What the body of a request may be.

    Attributes:
        most: Most bytes.
        budget: Where its bytes are taken from.
        time_out: Seconds within which it must be there.
    """

    most: int
    budget: BodyBudget
    time_out: float


class Body:
    """A body that is being read; its bytes are taken from the budget as they come."""

    def __init__(self, limits: BodyLimits, announced: int | None) -> None:
        """Begins to read a body.

        Args:
            limits: What it may be.
            announced: Its length, if its head says so.

        Raises:
            RefusedError: it is too long already.
        """
        self.limits = limits
        self.size = 0
        self._parts: list[bytes | bytearray] = []
        if announced is not None and announced > limits.most:
            raise self._too_long()

    def add(self, part: bytes) -> None:
        """Takes what has come.

        Raises:
            RefusedError: it is too long, or there is no room for it beside other bodies.
        """
        if self.size + len(part) > self.limits.most:
            raise self._too_long()
        if not self.limits.budget.take(len(part)):
            text = "there is no room for the body beside those of other requests"
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, text))
        self.size += len(part)
        if len(part) >= _OWN_PART or not self._parts:
            self._parts.append(part)
        elif isinstance(last := self._parts[-1], bytearray):
            last += part
        else:
            self._parts.append(bytearray(part))

    def whole(self) -> bytes:
        """Returns it; its bytes stay taken, and are its owner's to give back."""
        first = self._parts[0] if len(self._parts) == 1 else None
        return first if isinstance(first, bytes) else b"".join(self._parts)

    def drop(self) -> None:
        """Gives everything back: nobody will read it."""
        self.limits.budget.give_back(self.size)
        self.size = 0
        self._parts = []

    def _too_long(self) -> RefusedError:
        text = f"the body has more than {self.limits.most} bytes"
        return RefusedError(reply_of_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
