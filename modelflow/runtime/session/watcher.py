"""Who is told what units did for the rows of one session: for traces of single requests."""

from typing import NamedTuple, Protocol

from modelflow.device import Device
from modelflow.errors import FlowUnitError


class Part(NamedTuple):
    """What one call of a unit did for the rows of one session.

    Attributes:
        node: The node.
        unit: Its unit.
        device: What it ran on.
        start: When it was called, in the clock's seconds.
        end: When it had come back.
        batch_size: Rows in the batch, of whichever session.
        rows: Rows of the session among them that had not failed before; 0: a stream unit was
            called for an event of its own, or an end.
        error: Why one of them failed there; None: none did.
        track: The worker that called it: the name of its stage, and its number.
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
    """Is told of one session; from many threads at once, and must not wait.

    It comes with a request, and costs the others nothing.
    """

    def on_call(self, part: Part) -> None:
        """A unit was called for rows of the session; where it was cancelled also behind `over`."""

    def over(self) -> None:
        """The session is over; before whoever waits for its results is told."""


class Watchers:
    """Several who watch one session, as one."""

    def __init__(self, *watchers: Watcher) -> None:
        """Takes them."""
        self._watchers = watchers

    def on_call(self, part: Part) -> None:
        """See `Watcher.on_call`."""
        for watcher in self._watchers:
            watcher.on_call(part)

    def over(self) -> None:
        """See `Watcher.over`."""
        for watcher in self._watchers:
            watcher.over()
