"""The target of a load test, and a single request to a target."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol


class Outcome(StrEnum):
    """The outcomes of a request that every target has.

    A target adds names for its own failures: ``HTTP 503``, ``ConnectionResetError``, or the name of
    the exception that a flow unit raised.
    """

    OK = "ok"
    """The request succeeded."""
    TIMED_OUT = "timed out"
    """The request was cancelled, because no reply came in time."""
    SHED = "shed"
    """The request was not sent, because ``max_in_flight`` requests were in flight already."""
    UNFINISHED = "unfinished"
    """The request was in flight when the load test was interrupted."""


class Attempt:
    """A request of a load test, from the time at which the request is due.

    Attributes:
        due: The time at which the request is due, by the clock of the load test, in seconds.
        sent: The time at which the target received the request. A target with its own thread
            overwrites it with the time of sending.
        is_over: Whether the outcome is settled; a later end is ignored.
        handle: A value of the target, to find its own state of the request.
    """

    __slots__ = ("_tell", "due", "handle", "is_over", "sent")

    def __init__(self, due: float, sent: float, tell: Callable[["Attempt", str], None]) -> None:
        """Makes a request that has not been submitted.

        Args:
            due: The time at which the request is due.
            sent: The time now.
            tell: Called with the outcome at the end of the request, on any thread.
        """
        self.due = due
        self.sent = sent
        self.is_over = False
        self.handle: Any = None
        self._tell = tell

    def on_end(self, outcome: str = Outcome.OK) -> None:
        """Reports the end of the request; call once, from any thread. Does not block."""
        self._tell(self, outcome)


class Target(Protocol):
    """The interface of a load test's target, which itself chooses the next request to send."""

    @property
    def name(self) -> str:
        """The name of the target in reports."""

    def submit(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:
        """Sends requests without waiting.

        Args:
            attempts: The requests. Their ends are reported by `Attempt.on_end`, possibly before
                this method returns.
            on_room: Called once if some requests were refused, when the target may have room.

        Returns:
            The number of accepted requests, from the start of `attempts`. Submit the rest again.
        """

    def cancel(self, attempt: Attempt) -> None:
        """Cancels a submitted request; its end is ignored from now on."""
