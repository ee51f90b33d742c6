"""How long a call of a unit takes with so many rows: a line through what was measured.

Calls with 4 rows took 13 ms on average, with 8 rows 17 ms: ``t(n) = 9 ms + 1 ms n``. A call with 16
rows would take 25 ms, and so give 640 rows a second where one with 8 gives 470.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

# Sizes that were called less often say little.
_LEAST_CALLS = 3


@dataclass(frozen=True)
class ServiceTime:
    """``t(n) = fixed + each * n`` seconds, neither of them negative.

    Attributes:
        fixed: Seconds of a call, whatever it is given.
        each: Seconds of each row.
        error: The largest deviation of a measured size from the line, as a share of what was
            measured: above 0.15 the line is no good description.
    """

    fixed: float
    each: float
    error: float = 0.0

    @classmethod
    def of(cls, calls: Mapping[int, tuple[int, float]]) -> Self | None:
        """Fits the line by least squares, sizes weighing as often as they were called.

        Args:
            calls: Rows of a call -> how many had so many, and the seconds that they took together.

        Returns:
            None where fewer than two sizes were called three times.
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
        if fixed < 0.0:  # steeper than through the origin: that line is the nearest allowed one
            fixed = 0.0
            each = sum(c * s * t for s, t, c in points) / sum(c * s * s for s, _, c in points)
        off = (abs(fixed + each * size - time) / time for size, time, _ in points if time > 0)
        error = max(off, default=0.0)
        return cls(fixed, each, error)

    def seconds(self, rows: float) -> float:
        """Returns how long a call with so many rows takes."""
        return self.fixed + self.each * rows

    def rate(self, rows: float) -> float:
        """Returns the rows a second of calls with so many rows, one after the other."""
        seconds = self.seconds(rows)
        return rows / seconds if seconds > 0 else float("inf")

    def __str__(self) -> str:
        return f"t(n) = {self.fixed * 1e3:.3g} ms + {self.each * 1e3:.3g} ms n"
