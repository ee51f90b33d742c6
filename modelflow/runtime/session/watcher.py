"""Watchers of the calls of units for one session, for traces of single requests."""

from typing import NamedTuple, Protocol

from modelflow.device import Device
from modelflow.errors import FlowUnitError


class Part(NamedTuple):
    """The part of a session in one call of a unit.

    Attributes:
        node: The node.
        unit: The unit of the node.
        device: The device of the unit.
        start: The time of the call, in seconds of the clock.
        end: The time when the call returned.
        batch_size: The number of rows in the batch, of all sessions.
        rows: The number of rows of the session without an earlier failure. The value is 0 if a
            stream unit was called for an event of its own or for an end.
        error: The error of one of these rows in the call, or None.
        track: The worker that made the call: the name of its stage and its number.
    """

    node: str
    unit: str
    device: Device
    start: float
    end: float
    batch_size: int
    rows: int
    error: FlowUnitError | None
    track: str


class Watcher(Protocol):
    """A receiver of reports about one session, called from many threads, which must not wait.

    A watcher belongs to a request, and adds no cost to other requests.
    """

    def on_call(self, part: Part) -> None:
        """Receives a call of a unit for rows of the session; after a cancel, also after `over`."""

    def over(self) -> None:
        """Receives the end of the session, before the readers of its results."""


class Watchers:
    """A watcher that forwards all reports to several watchers."""

    def __init__(self, *watchers: Watcher) -> None:
        """Stores the watchers."""
        self._watchers = watchers

    def on_call(self, part: Part) -> None:
        """Forwards a call; see `Watcher.on_call`."""
        for watcher in self._watchers:
            watcher.on_call(part)

    def over(self) -> None:
        """Forwards the end; see `Watcher.over`."""
        for watcher in self._watchers:
            watcher.over()
