"""The counters of a model's requests. The server's thread writes, any thread reads."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from modelflow.wire.problem import Code

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the latency histogram in seconds. The last bucket has no bound."""


class Exemplar(NamedTuple):
    """A request of a sampled trace: the trace, the request's seconds, seconds since 1970."""

    trace_id: str
    seconds: float
    time: float


class ModelCounts:
    """The counters of the finished requests to a model, successful or failed.

    Attributes:
        outcomes: The number of requests by code; ``OK`` for success.
        rows: The items of the successful requests.
        failed_rows: The items of the failed requests.
        seconds: The total time of the successful requests, from arrival to reply.
        answer_seconds: The part of ``seconds`` after the graph, for making the replies.
        failed_seconds: The total time of the failed requests.
        cache_hits: The number of requests that the response cache answered.
        cache_misses: The number of requests that the response cache could not answer.
        last: The time of the last finished request in seconds since 1970, or 0 before the first.
        latencies: The number of requests in each bucket of `BOUNDS`, and in the last bucket. The
            numbers are not cumulative.
        exemplars: The last request of a sampled trace in each of these buckets, or None.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.rows = self.failed_rows = 0
        self.seconds = self.answer_seconds = self.failed_seconds = 0.0
        self.cache_hits = self.cache_misses = 0
        self.last = 0.0
        self.latencies = [0] * (len(BOUNDS) + 1)
        self.exemplars: list[Exemplar | None] = [None] * (len(BOUNDS) + 1)
        self._newly_worked = 0

    def on_answers(self, rows: int, seconds: Sequence[float], answer_seconds: float = 0.0) -> None:
        """Counts successful requests that were answered together.

        Args:
            rows: The items of all requests.
            seconds: The time of each request.
            answer_seconds: The part of the time after the graph, the same for each request.
        """
        self._newly_worked += len(seconds)
        self.outcomes["OK"] += len(seconds)
        self.rows += rows
        self.seconds += sum(seconds)
        self.answer_seconds += answer_seconds * len(seconds)
        self.last = time.time()
        for one in seconds:
            self.latencies[bisect_left(BOUNDS, one)] += 1

    def on_lookup(self, *, is_hit: bool) -> None:
        """Counts a lookup in the response cache."""
        self.cache_hits += is_hit
        self.cache_misses += not is_hit

    def on_traces(self, traces: Iterable[tuple[str, float]]) -> None:
        """Stores successful requests: the sampled trace's id or "", and the request's seconds."""
        for trace_id, seconds in traces:
            if not trace_id:
                continue
            found = Exemplar(trace_id, seconds, time.time())
            self.exemplars[bisect_left(BOUNDS, seconds)] = found

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
        """Returns the number of finished requests."""
        return self.outcomes.total()

    def count_newly_worked(self) -> int:
        """Returns the number of new finished requests, except cancelled and late requests.

        Counts from the last call of this method.
        """
        count, self._newly_worked = self._newly_worked, 0
        return count

    @property
    def failures(self) -> int:
        """Returns the number of failed requests."""
        return self.requests - self.outcomes["OK"]
