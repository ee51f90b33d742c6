"""The duration of a unit's call by its number of rows: a line fitted to measured calls.

Calls with 4 rows took 13 ms on average, with 8 rows 17 ms: ``t(n) = 9 ms + 1 ms n``. A call with 16
rows would take 25 ms. That is 640 rows a second; calls with 8 rows give 470.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

# Sizes with fewer calls are not used for the fit.
_LEAST_CALLS = 3


@dataclass(frozen=True)
class ServiceTime:
    """The line ``t(n) = fixed + each * n`` in seconds; both values are at least 0.

    Attributes:
        fixed: Seconds of each call, independent of its rows.
        each: Seconds of each row.
        error: The largest relative deviation of a measured size from the line. Above 0.15 the line
            does not describe the unit well.
    """

    fixed: float
    each: float
    error: float = 0.0

    @classmethod
    def of(cls, calls: Mapping[int, tuple[int, float]]) -> Self | None:
        """Fits the line by least squares; each size has the number of its calls as weight.

        Args:
            calls: Rows of a call -> (number of such calls, their total seconds).

        Returns:
            None if fewer than two sizes had three calls.
        """
        points = [
            (float(size), seconds / count, float(count))
            for size, (count, seconds) in calls.items()
            if size and count >= _LEAST_CALLS
        ]
        if len(points) < 2:
            return None
        weight = sum(count for _, _, count in points)
        mean_size = sum(size * count for size, _, count in points) / weight
        mean_time = sum(time * count for _, time, count in points) / weight
        spread = sum(count * (size - mean_size) ** 2 for size, _, count in points)
        covered = sum(
            count * (size - mean_size) * (time - mean_time) for size, time, count in points
        )
        each = max(0.0, covered / spread)
        fixed = mean_time - each * mean_size
        # A negative fixed time is impossible. The nearest possible line goes through the origin.
        if fixed < 0.0:
            fixed = 0.0
            each = sum(c * s * t for s, t, c in points) / sum(c * s * s for s, _, c in points)
        off = (abs(fixed + each * size - time) / time for size, time, _ in points if time > 0)
        error = max(off, default=0.0)
        return cls(fixed, each, error)

    def seconds(self, rows: float) -> float:
        """Returns the duration of a call with this many rows."""
        return self.fixed + self.each * rows

    def rate(self, rows: float) -> float:
        """Returns the rows a second of successive calls with this many rows."""
        seconds = self.seconds(rows)
        return rows / seconds if seconds > 0 else float("inf")

    def __str__(self) -> str:
        return f"t(n) = {self.fixed * 1e3:.3g} ms + {self.each * 1e3:.3g} ms n"
