"""What somebody may be told of a running flow, a batch at a time: for profiles and traces.

A batch of 5 rows at node "decode" that was taken at 10.000, called until 10.004, and whose results
found a full queue until 10.010, brings ``called("decode", 0, 5, 10.000, 10.004)`` and
``blocked("decode", 0, 10.004, 10.010)``.
"""

from typing import NamedTuple, Protocol

from modelflow.device import Device
from modelflow.errors import FlowUnitError

__all__ = ["Observer", "Part", "Watcher"]


class Observer(Protocol):
    """Is told by every worker what it has done; from many threads at once, and must not wait.

    ``node`` is the name of the stage: of its first node, where several are fused.

    Times are the clock's, in seconds. A flow has none unless it is given one, and then no cost.
    """

    def took(self, node: str, worker: int, rows: int, waited_from: float, now: float) -> None:
        """The worker has waited since ``waited_from``, and has a batch of ``rows`` now."""

    def called(self, node: str, worker: int, rows: int, start: float, end: float) -> None:
        """The unit was called for ``rows`` rows."""

    def blocked(self, node: str, worker: int, start: float, end: float) -> None:
        """The worker has waited for room behind its node."""


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
    """

    node: str
    unit: str
    device: Device
    start: float
    end: float
    batch_size: int
    rows: int
    error: FlowUnitError | None


class Watcher(Protocol):
    """Is told of one session; from many threads at once, and must not wait.

    Unlike an `Observer`, who is told of all, it comes with a request, and costs the others nothing.
    """

    def called(self, part: Part) -> None:
        """A unit was called for rows of the session; where it was cancelled also behind `over`."""

    def over(self) -> None:
        """The session is over; before whoever waits for its results is told."""
