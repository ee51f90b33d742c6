"""Reading the body of a request, within bounds."""

import threading
from http import HTTPStatus
from typing import Any

from modelflow.http.reply import Reply, reply_of_status

__all__ = ["BodyBudget", "RefusedError", "read_body"]


class RefusedError(Exception):
    """A request is not worked on.

    Attributes:
        reply: What it is answered.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.reply: Reply = reply_of_status(status, message)


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


async def read_body(receive: Any, most: int, budget: BodyBudget) -> bytes:
    """Returns a body, whose bytes are then taken from the budget.

    Raises:
        RefusedError: it is too long, there is no room for it, or who sends it went away before its
            end; nothing is taken.
    """
    parts: list[bytes] = []
    size = 0
    is_whole = False
    try:
        while not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                text = f"the connection was closed behind {size} bytes of the body"
                raise RefusedError(HTTPStatus.BAD_REQUEST, text)
            part = message.get("body", b"")
            if size + len(part) > most:
                text = f"the body has more than {most} bytes"
                raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            if not budget.take(len(part)):
                text = "there is no room for the body beside those of other requests"
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, text)
            size += len(part)
            parts.append(part)
            is_whole = not message.get("more_body")
    finally:
        if not is_whole:
            budget.give_back(size)
    return parts[0] if len(parts) == 1 else b"".join(parts)
