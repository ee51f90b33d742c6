"""Distributions of times in logarithmic buckets: four for each doubling, from 1 ns on.

Example: 1.00 ms and 1.15 ms share a bucket, and 1.20 ms is in the next. Every value from a
histogram is within 9 % of the true value.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Self

# The buckets for each doubling. A value differs from the middle of its bucket by at most a factor
# of 2 ** (1 / 8).
_FINENESS = 4
_NANOSECONDS = 1e9
BUCKETS = 256
"""The number of buckets; the last begins at 2 ** 63.75 ns, some 500 years."""

# Finding the bucket costs 0.15 us, too much for a call shorter than a hundred times that. So only
# one of `EVERY` times below `SHORT` is counted, with the weight `EVERY`. The first `ALL` times are
# all counted.
SHORT = 50e-6
"""The length in seconds below which not every time is counted."""
EVERY = 16
"""The sampling interval of short times; a power of two."""
ALL = 64
"""The number of times at the beginning that are all counted."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution of times: the number of times in each bucket.

    Attributes:
        counts: Bucket -> number of times. Bucket ``i`` holds 2 ** (i / 4) to 2 ** ((i + 1) / 4)
            nanoseconds. The first bucket also holds shorter times.
        total: The sum of all times, in seconds.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    total: float = 0.0

    @classmethod
    def of(cls, counts: Sequence[int], total: float) -> Self:
        """Returns a histogram from the count of each bucket and the sum of all times in seconds."""
        # Most buckets are empty, and `compress` skips them in C.
        return cls(dict(itertools.compress(enumerate(counts), counts)), total)

    @property
    def count(self) -> int:
        """The number of times in the histogram."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """The average time in seconds; 0 for an empty histogram."""
        return self.total / self.count if self.counts else 0.0

    def percentile(self, percent: float) -> float:
        """Returns the time in seconds that ``percent`` of the times do not exceed, within 9 %.

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
        """Returns for each of ``bounds`` (rising seconds) the number of times up to this bound.

        All times of a bucket count with the value of its middle.
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
    """A distribution that grows, written by one thread at a time, and read by any thread."""

    __slots__ = ("counts", "number", "total")

    number: int
    """The number of times that were added."""
    counts: list[int]
    """The number of times in each bucket."""
    total: float
    """The sum of all times, in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.number = 0
        self.total = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Adds ``count`` equal times, in seconds."""
        # `WorkerStats.count` has a copy of this code, because a call would double its cost.
        before, self.number = self.number, self.number + count
        self.total += seconds * count
        if seconds <= SHORT and before >= ALL:
            count = (self.number // EVERY - before // EVERY) * EVERY
        if count:
            self.counts[int(log2(seconds * 1e9 + 1.0) * 4.0)] += count

    def histogram(self) -> Histogram:
        """Returns a histogram of the times so far."""
        return Histogram.of(self.counts.copy(), self.total)
