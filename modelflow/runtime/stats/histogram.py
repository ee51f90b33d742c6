"""Distributions of times in log-linear buckets: four to every doubling, from a nanosecond on.

1.00 ms and 1.15 ms share a bucket, 1.20 ms is in the next: whatever is read from a histogram is
within 9 % of the truth.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Self

# Buckets to a doubling; a value is at most 2 ** (1 / 8) from the middle of its bucket.
_FINENESS = 4
_NANOSECONDS = 1e9
BUCKETS = 256
"""How many there are: the last one begins at 2 ** 63.75 ns, some 500 years."""

# To find the bucket costs 0.15 us, too much beside something that takes less than a hundred times
# that. So of times below `SHORT` only one of `EVERY` is looked at, and counts for so many; but each
# of the first ones is.
SHORT = 50e-6
"""Seconds below which not every time is looked at."""
EVERY = 16
"""Of those one of so many is; a power of two."""
ALL = 64
"""Of the first so many each is."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often times of which length were seen.

    Attributes:
        counts: Bucket -> how many. Bucket ``i`` holds 2 ** (i / 4) to 2 ** ((i + 1) / 4)
            nanoseconds; the first one also what is shorter.
        total: All of them added up, in seconds.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    total: float = 0.0

    @classmethod
    def of(cls, counts: Sequence[int], total: float) -> Self:
        """Takes the count of each bucket, and the seconds of all times together."""
        # Most are empty: what looks at each of them is C.
        return cls(dict(itertools.compress(enumerate(counts), counts)), total)

    @property
    def count(self) -> int:
        """How many times it holds."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """Seconds, on average; 0 where there are none."""
        return self.total / self.count if self.counts else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the seconds that ``percent`` of the times do not exceed, within 9 %.

        Raises:
            ValueError: ``percent`` is not from 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percent: got {percent!r}; expected 0 to 100")
        place = max(1, ceil(self.count * percent / 100))
        passed = 0
        for bucket, count in sorted(self.counts.items()):
            passed += count
            if passed >= place:
                return float(2 ** ((bucket + 0.5) / _FINENESS) / _NANOSECONDS)
        return 0.0

    def at_most(self, bounds: Sequence[float]) -> list[int]:
        """Returns how many are at most as long as each of ``bounds``: seconds, rising.

        A bucket counts as at most what its middle is.
        """
        buckets = sorted(self.counts.items())
        passed = [0, *itertools.accumulate(count for _, count in buckets)]
        middles = [2 ** ((bucket + 0.5) / _FINENESS) / _NANOSECONDS for bucket, _ in buckets]
        return [passed[bisect.bisect(middles, bound)] for bound in bounds]

    def __add__(self, other: "Histogram") -> "Histogram":
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Histogram(dict(sorted(counts.items())), self.total + other.total)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        counts = {
            bucket: left
            for bucket, count in self.counts.items()
            if (left := count - earlier.counts.get(bucket, 0))
        }
        return Histogram(counts, self.total - earlier.total)


class Record:
    """Times as they come, for one thread at a time to write and any to read."""

    __slots__ = ("counts", "number", "total")

    number: int
    """How many have been added."""
    counts: list[int]
    """How many there are in each bucket."""
    total: float
    """All of them added up, in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.number = 0
        self.total = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Adds ``count`` equal times, in seconds."""
        # Also in `WorkerStats.count`, where a call would cost as much again.
        before, self.number = self.number, self.number + count
        self.total += seconds * count
        if seconds <= SHORT and before >= ALL:
            count = (self.number // EVERY - before // EVERY) * EVERY
        if count:
            self.counts[int(log2(seconds * 1e9 + 1.0) * 4.0)] += count

    def histogram(self) -> Histogram:
        """Returns what has been added so far."""
        return Histogram.of(self.counts.copy(), self.total)
