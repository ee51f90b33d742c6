"""The report of a load test: percentiles, rates and errors."""

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.target import Attempt, Outcome

PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles that reports show."""


class Sample:
    """A sorted sample of times in seconds.

    Attributes:
        seconds: The times in ascending order; a read-only array of float64.
    """

    def __init__(self, seconds: Sequence[float] | npt.NDArray[np.float64] = ()) -> None:
        """Sorts the times."""
        self.seconds = np.sort(np.asarray(seconds, np.float64))
        self.seconds.flags.writeable = False

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def mean(self) -> float:
        """The mean in seconds; 0 for an empty sample."""
        return float(self.seconds.mean()) if len(self) else 0.0

    @property
    def max(self) -> float:
        """The longest time in seconds; 0 for an empty sample."""
        return float(self.seconds[-1]) if len(self) else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the shortest time that ``percent`` % of the times do not exceed.

        An empty sample has the percentile 0.

        Raises:
            ValueError: ``percent`` is not from 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percent: got {percent!r}; expected 0 to 100")
        if not len(self):
            return 0.0
        # Rounded, because 99.9 % of 1000 is 999.0000000000001 in binary.
        place = math.ceil(round(len(self) * percent / 100, 6))
        return float(self.seconds[max(1, place) - 1])

    def document(self) -> dict[str, Any]:
        """Returns the statistics as a dict of JSON values, with times in seconds."""
        marks = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTS}
        return {"count": len(self), "mean": self.mean, **marks, "max": self.max}


VERSION = 1
"""The version of the JSON document."""
# The attributes of a report that the document has unchanged.
_FIGURES = ("target", "is_whole", "seconds", "sending", "offered", "rate", "is_client_limited")
# Delay of the client that affects the results: in seconds, and as a share of the latency.
_LATE = 0.010
_LATE_SHARE = 0.1


@dataclass(frozen=True)
class Second:
    """The results of one second of a load test.

    Attributes:
        second: The number of the second; the first one after the warm-up is 0.
        due: Number of requests that were due in this second and have ended.
        rate: Successful replies a second in this second, whenever the requests were due.
        failed: Number of the requests in ``due`` that failed.
        p50, p99: Latencies of the successful requests in ``due``, in seconds; 0 without any.
    """

    second: int
    due: int
    rate: float
    failed: int
    p50: float
    p99: float


@dataclass(frozen=True)
class LoadReport:
    """The results of a load test, for the requests that were due after the warm-up.

    Attributes:
        target: The name of the target.
        options: The options of the load test.
        seconds: Duration without the warm-up.
        sending: The part of ``seconds`` in which requests were sent.
        answered_in_time: Number of successful replies within ``seconds``. Includes requests that
            were due in the warm-up, and excludes later replies.
        outcomes: Outcome -> number of requests, the most frequent first. An outcome is one of
            `Outcome`, or the target's name for a failure.
        latency: The latency of each successful request, counted from when the request was due.
            With clients, counted from when the request was sent.
        late: The client's own delay of each request, from when it was due until it was sent. With
            clients, from the last reply until the next request.
        curve: The results of each second.
        is_whole: Whether the load test ran to its end; False if it was interrupted.
    """

    target: str
    options: LoadOptions
    seconds: float
    sending: float
    answered_in_time: int
    outcomes: Mapping[str, int]
    latency: Sample
    late: Sample
    curve: tuple[Second, ...]
    is_whole: bool = True

    @property
    def count(self) -> int:
        """The number of requests that were due and have ended, with any outcome."""
        return sum(self.outcomes.values())

    @property
    def ok(self) -> int:
        """The number of successful requests."""
        return self.outcomes.get(Outcome.OK, 0)

    @property
    def failures(self) -> dict[str, int]:
        """The outcomes of the failed requests."""
        return {name: count for name, count in self.outcomes.items() if name != Outcome.OK}

    @property
    def offered(self) -> float:
        """The requests a second that were due."""
        return self.count / self.sending if self.sending > 0 else 0.0

    @property
    def rate(self) -> float:
        """The successful replies a second."""
        return self.answered_in_time / self.seconds if self.seconds > 0 else 0.0

    @property
    def is_client_limited(self) -> bool:
        """Whether the delay of the client itself affects the results.

        At a rate: 1 % of the requests were sent more than 10 ms late, or later than a tenth of the
        median latency. With clients: the mean delay of the next request exceeded a tenth of the
        mean latency.
        """
        if self.options.rate is None:
            return len(self.latency) > 0 and self.late.mean > _LATE_SHARE * self.latency.mean
        late, median = self.late.percentile(99), self.latency.percentile(50)
        return late > _LATE or (len(self.latency) > 0 and late > _LATE_SHARE * median)

    def document(self) -> dict[str, Any]:
        """Returns the report as a dict of JSON values, with times in seconds.

        ``version`` changes when a reader of the old form would misunderstand the new form.
        """
        return {
            "version": VERSION,
            **{name: getattr(self, name) for name in _FIGURES},
            "options": asdict(self.options),
            "outcomes": dict(self.outcomes),
            "latency": self.latency.document(),
            "late": self.late.document(),
            "curve": [asdict(second) for second in self.curve],
        }


_Times = npt.NDArray[np.float64]


class Tally:
    """Counts requests and stores the time of each; only one thread may write.

    Attributes:
        answered, failed: Numbers of requests, including those of the warm-up.
    """

    def __init__(self, options: LoadOptions) -> None:
        """Starts with no requests."""
        self._options = options
        self._is_open = options.rate is not None
        self.answered = self.failed = 0
        # Of successful requests: seconds from the end of the warm-up, negative before it.
        self._due, self._latencies = array("d"), array("d")
        self._late = array("d")
        self._outcomes: Counter[str] = Counter()
        self._failures: Counter[int] = Counter()  # by the second in which the request was due

    def since(self, attempt: Attempt) -> float:
        """Returns the time from which the latency of a request counts.

        At a rate, that is the time at which the request was due. With clients, it is the time of
        sending, because a client sends when it is ready.
        """
        return attempt.due if self._is_open else attempt.sent

    def add(self, attempt: Attempt, outcome: str, end: float, window: float) -> None:
        """Adds a request that has ended.

        Args:
            attempt: The request.
            outcome: The outcome of the request.
            end: The time of its end.
            window: The time at which the warm-up ended.
        """
        since = self.since(attempt)
        due = since - window
        if outcome == Outcome.OK:
            self.answered += 1
            self._due.append(due)
            self._latencies.append(end - since)
        else:
            self.failed += 1
        if due >= 0.0:
            self._outcomes[outcome] += 1
            if outcome != Outcome.OK:
                self._failures[int(due)] += 1
            if outcome != Outcome.SHED:
                self._late.append(max(0.0, attempt.sent - attempt.due))

    def report(self, target: str, seconds: float, sending: float, is_whole: bool) -> LoadReport:
        """Returns the report of all requests so far.

        Args:
            target: The name of the target.
            seconds: Duration without the warm-up.
            sending: The part of `seconds` in which requests were sent.
            is_whole: Whether the load test ran to its end.
        """
        due = np.frombuffer(self._due, np.float64) if self._due else np.zeros(0)
        times = np.frombuffer(self._latencies, np.float64) if self._due else np.zeros(0)
        counts = due >= 0.0
        ends = due + times
        in_time = (ends >= 0.0) & (ends <= seconds)
        return LoadReport(
            target=target,
            options=self._options,
            seconds=seconds,
            sending=sending,
            answered_in_time=int(in_time.sum()),
            outcomes=dict(self._outcomes.most_common()),
            latency=Sample(times[counts]),
            late=Sample(self._late),
            curve=self._curve(due[counts], times[counts], ends[in_time], seconds),
            is_whole=is_whole,
        )

    def _curve(
        self, due: _Times, times: _Times, ends: _Times, seconds: float
    ) -> tuple[Second, ...]:
        last = max(int(np.ceil(seconds)), 1)
        answered = np.bincount(np.minimum(ends.astype(np.int64), last - 1), minlength=last)
        order = np.argsort(due, kind="stable")
        due, times = due[order], times[order]
        cuts = np.searchsorted(due, np.arange(last + 1))
        found = []
        for number in range(last):
            of_it = Sample(times[cuts[number] : cuts[number + 1]])
            failed = self._failures[number]
            length = min(1.0, seconds - number)
            rate = float(answered[number]) / length if length > 0 else 0.0
            marks = of_it.percentile(50), of_it.percentile(99)
            found.append(Second(number, len(of_it) + failed, rate, failed, *marks))
        return tuple(found)
