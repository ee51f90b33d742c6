"""The figures of a load: exact percentiles of times, requests a second, errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.target import Outcome

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
            "target": self.target,
            "options": self.options.document(),
            "is_whole": self.is_whole,
            "seconds": self.seconds,
            "sending": self.sending,
            "offered": self.offered,
            "rate": self.rate,
            "outcomes": dict(self.outcomes),
            "latency": self.latency.document(),
            "late": self.late.document(),
            "is_client_limited": self.is_client_limited,
            "curve": [asdict(second) for second in self.curve],
        }
