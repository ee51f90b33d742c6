"""What has become of the requests to one model. Written on the server's thread, read anywhere."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from modelflow.wire.problem import Code

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the latency histogram, in seconds; a last one has none."""


class ModelCounts:
    """Counts the requests to a model that were answered, one way or another.

    Attributes:
        outcomes: By code (``OK``: answered) how many.
        rows: The items of those that were answered.
        failed_rows: The items of those that failed.
        seconds: How long the answered took, from the request's arrival to its answer, added up.
        answer_seconds: The part of that behind the graph: making the answer of what came out.
        failed_seconds: How long those took that failed.
        last: When the last one came to its end, in seconds since 1970; 0: none has.
        latencies: How many took at most each of `BOUNDS`, and longer than all; not added up.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.rows = self.failed_rows = 0
        self.seconds = self.answer_seconds = self.failed_seconds = 0.0
        self.last = 0.0
        self.latencies = [0] * (len(BOUNDS) + 1)
        self._newly_worked = 0

    def on_answers(self, rows: int, seconds: Sequence[float], answer_seconds: float = 0.0) -> None:
        """Counts requests that were answered together.

        Args:
            rows: The items of all.
            seconds: How long each took.
            answer_seconds: The part of that behind the graph, the same for each.
        """
        self._newly_worked += len(seconds)
        self.outcomes["OK"] += len(seconds)
        self.rows += rows
        self.seconds += sum(seconds)
        self.answer_seconds += answer_seconds * len(seconds)
        self.last = time.time()
        for one in seconds:
            self.latencies[bisect_left(BOUNDS, one)] += 1

    def on_failure(self, code: Code, rows: int = 0, seconds: float = 0.0) -> None:
        """Counts a request that failed."""
        if code not in (Code.CANCELLED, Code.DEADLINE_EXCEEDED):
            self._newly_worked += 1
        self.outcomes[str(code)] += 1
        self.failed_rows += rows
        self.failed_seconds += seconds
        self.last = time.time()

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return self.outcomes.total()

    def count_newly_worked(self) -> int:
        """Returns how many were not given up, since this was asked last."""
        count, self._newly_worked = self._newly_worked, 0
        return count

    @property
    def failures(self) -> int:
        """How many of them failed."""
        return self.requests - self.outcomes["OK"]
