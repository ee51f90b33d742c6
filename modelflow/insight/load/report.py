"""The figures of a load, as they come and at its end: percentiles, rates, errors."""

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
    """Times in seconds, for reading.

    Attributes:
        seconds: float64, rising, read-only.
    """

    def __init__(self, seconds: Sequence[float] | npt.NDArray[np.float64] = ()) -> None:
        """Sorts them."""
        self.seconds = np.sort(np.asarray(seconds, np.float64))
        self.seconds.flags.writeable = False

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def mean(self) -> float:
        """Their mean in seconds; 0 where there are none."""
        return float(self.seconds.mean()) if len(self) else 0.0

    @property
    def max(self) -> float:
        """The longest one in seconds; 0 where there are none."""
        return float(self.seconds[-1]) if len(self) else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the shortest time that ``percent`` of them do not exceed; 0 where there are none.

        Raises:
            ValueError: ``percent`` is not from 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percent: got {percent!r}; expected 0 to 100")
        if not len(self):
            return 0.0
        # Rounded, as 99.9 of 1000 is 999.0000000000001 in binary.
        place = math.ceil(round(len(self) * percent / 100, 6))
        return float(self.seconds[max(1, place) - 1])

    def document(self) -> dict[str, Any]:
        """Returns its figures as what JSON can hold; times in seconds."""
        marks = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTS}
        return {"count": len(self), "mean": self.mean, **marks, "max": self.max}


VERSION = 1
"""Of the JSON document."""
# What it has of a report as it is.
_FIGURES = ("target", "is_whole", "seconds", "sending", "offered", "rate", "is_client_limited")
# What delay of the client shows in the figures: seconds, and as a share of the latency.
_LATE = 0.010
_LATE_SHARE = 0.1


@dataclass(frozen=True)
class Second:
    """A second of a load.

    Attributes:
        second: Its number, from 0: the first one behind the warm-up.
        due: Requests that were due in it and are over.
        rate: Requests a second that were answered well in it, whenever they were due.
        failed: Those of ``due`` that were not.
        p50, p99: Latencies of those of ``due`` that were, in seconds; 0: there were none.
    """

    second: int
    due: int
    rate: float
    failed: int
    p50: float
    p99: float


@dataclass(frozen=True)
class LoadReport:
    """What a load has done: of the requests that were due behind the warm-up.

    Attributes:
        target: What the load was put on.
        options: What load was wanted.
        seconds: How long it was, without the warm-up.
        sending: How long of that requests were sent.
        answered_in_time: Requests that were answered well in these seconds, those that were due
            in the warm-up among them, and without those that were answered later.
        outcomes: What became of requests (`Outcome`, or as the target names its failures) -> of how
            many; the most frequent first.
        latency: Of each that was answered well. It counts from when the request was due; of clients
            from when it was sent.
        late: How much later than it was due each was sent: the client's own delay. Of clients, how
            long after they had their answers.
        curve: Second by second.
        is_whole: False: it was interrupted.
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
        """How many requests were due and are over, however."""
        return sum(self.outcomes.values())

    @property
    def ok(self) -> int:
        """How many of them were answered well."""
        return self.outcomes.get(Outcome.OK, 0)

    @property
    def failures(self) -> dict[str, int]:
        """What became of the others."""
        return {name: count for name, count in self.outcomes.items() if name != Outcome.OK}

    @property
    def offered(self) -> float:
        """Requests a second that were due."""
        return self.count / self.sending if self.sending > 0 else 0.0

    @property
    def rate(self) -> float:
        """Requests a second that were answered well."""
        return self.answered_in_time / self.seconds if self.seconds > 0 else 0.0

    @property
    def is_client_limited(self) -> bool:
        """Tells whether the client itself was so late that the figures are its own as well.

        At a rate: 1 % of the requests were sent more than 10 ms late, or more than a tenth of the
        median latency. Of clients: they took a tenth of the mean latency to send the next one.
        """
        if self.options.rate is None:
            return len(self.latency) > 0 and self.late.mean > _LATE_SHARE * self.latency.mean
        late, median = self.late.percentile(99), self.latency.percentile(50)
        return late > _LATE or (len(self.latency) > 0 and late > _LATE_SHARE * median)

    def document(self) -> dict[str, Any]:
        """Returns all of it as what JSON can hold; times in seconds.

        ``version`` changes when a reader of the old form would misunderstand the new one.
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
    """Counts requests, and keeps the times of each; one thread writes.

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
