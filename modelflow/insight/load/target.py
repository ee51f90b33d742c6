"""What load is put on, and one request of it."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol


class Outcome(StrEnum):
    """What may become of a request whatever the target is.

    A target has names of its own for its failures: ``HTTP 503``, ``ConnectionResetError``, the name
    of the exception that a flow unit raised.
    """

    OK = "ok"
    """It was answered well."""
    TIMED_OUT = "timed out"
    """It was given up: no answer came in time."""
    SHED = "shed"
    """It was due while as many as may be were under way, and was not sent."""
    UNFINISHED = "unfinished"
    """It was under way when the load was interrupted."""


class Attempt:
    """One request, from the moment at which it is due.

    Attributes:
        due: When it is to be sent, by the load's clock, in seconds.
        sent: When it was: when the target was given it, or what a target with a thread of its own
            puts there.
        is_over: Nobody waits for it any more.
        handle: The target's own, to find what it has made of it.
    """

    __slots__ = ("_tell", "due", "handle", "is_over", "sent")

    def __init__(self, due: float, sent: float, tell: Callable[["Attempt", str], None]) -> None:
        """Makes one.

        Args:
            due: When it is to be sent.
            sent: Now.
            tell: Is told of its end, on whatever thread.
        """
        self.due = due
        self.sent = sent
        self.is_over = False
        self.handle: Any = None
        self._tell = tell

    def on_end(self, outcome: str = Outcome.OK) -> None:
        """Says that it is over, now; once, from any thread, and holds up nobody."""
        self._tell(self, outcome)


class Target(Protocol):
    """What requests are sent to. Which request is the next one, it knows itself."""

    @property
    def name(self) -> str:
        """What it is, as reports name it."""

    def submit(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        """Sends requests, and waits for nothing.

        Args:
            attempts: Each is told of its end (`Attempt.on_end`), perhaps before this returns.
            on_room: Called once if not all are taken, when there may be room for the others.

        Returns:
            How many it has taken, the first ones; the others are submitted again.
        """

    def cancel(self, attempt: Attempt) -> None:
        """Gives up one that was submitted; whether it still ends is of no interest."""
