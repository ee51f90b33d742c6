"""One input of a graph, as the entrance sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelflow.runtime.session.segment import Segment
from modelflow.runtime.stages.outbox import Receiver
from modelflow.runtime.worker_slot import Handoff


@dataclass(frozen=True, slots=True)
class EntryPort:
    """One graph input: what it feeds, and whether it refuses instead of waiting."""

    name: str
    """The input's name."""
    route: tuple[tuple[Receiver, int], ...]
    """The receivers, with their port numbers."""
    is_rejecting: bool
    """A node that it feeds says ``queue_policy=reject``."""
    expected_wait: Callable[[], float | None]
    """Gives the expected wait in seconds until there is room, or None."""

    def append(self, segments: Sequence[Segment], relay: Handoff | None = None) -> list[Receiver]:
        """Appends to every receiver; returns those that `call_due` must be called of.

        Args:
            segments: What has come.
            relay: What the calling thread may go on with itself; None: others must be woken.
        """
        if len(self.route) == 1:  # every row of most graphs passes here
            receiver, target = self.route[0]
            return [receiver] if receiver.append(target, segments, relay) else []
        # Each has its own, made before the first is appended: who reads it may change it at once.
        others = [[segment.twin() for segment in segments] for _ in self.route[1:]]
        routed = zip(self.route, (segments, *others), strict=True)
        return [
            receiver for (receiver, target), own in routed if receiver.append(target, own, relay)
        ]
