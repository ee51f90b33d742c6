"""What became of the requests of a load, as it comes; one thread writes."""

from array import array
from collections import Counter

import numpy as np
import numpy.typing as npt

from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.report import LoadReport, Sample, Second
from modelflow.insight.load.target import Attempt, Outcome

Times = npt.NDArray[np.float64]


class Tally:
    """Counts requests, and keeps the times of each.

    Attributes:
        answered, failed: How many were, the warm-up's among them.
    """

    def __init__(self, options: LoadOptions) -> None:
        """Begins with none."""
        self._options = options
        self._is_open = options.rate is not None
        self.answered = self.failed = 0
        # Seconds from the end of the warm-up, negative before it; of what was answered well.
        self._due, self._latencies = array("d"), array("d")
        self._late = array("d")
        self._outcomes: Counter[str] = Counter()
        self._failures: Counter[int] = Counter()  # by the second in which they were due

    def __len__(self) -> int:
        return self.answered + self.failed

    def since(self, attempt: Attempt) -> float:
        """Returns from when a request's latency counts.

        Where requests come at a rate, that is when it was due. A client sends when it is ready to.
        """
        return attempt.due if self._is_open else attempt.sent

    def add(self, attempt: Attempt, outcome: str, end: float, window: float) -> None:
        """Adds a request that is over.

        Args:
            attempt: It.
            outcome: What became of it.
            end: When.
            window: When the warm-up ended.
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
        """Returns what there is.

        Args:
            target: Its name.
            seconds: How long it was, without the warm-up.
            sending: How long of that requests were sent.
            is_whole: It came to its end.
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

    def _curve(self, due: Times, times: Times, ends: Times, seconds: float) -> tuple[Second, ...]:
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
