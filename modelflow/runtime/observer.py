"""What somebody may be told of a running flow, a batch at a time: for profiles and traces.

A batch of 5 rows at node "decode" that was taken at 10.000, called until 10.004, and whose results
found a full queue until 10.010, brings ``called("decode", 0, 5, 10.000, 10.004)`` and
``blocked("decode", 0, 10.004, 10.010)``.
"""

from typing import Protocol

__all__ = ["Observer"]


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
