"""Times that were measured, each of them: exact percentiles."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PERCENTS", "Sample"]

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
            message = f"percent: got {percent!r}; expected 0 to 100"
            raise ValueError(message)
        if not len(self):
            return 0.0
        # Rounded, as 99.9 of 1000 is 999.0000000000001 in binary.
        place = math.ceil(round(len(self) * percent / 100, 6))
        return float(self.seconds[max(1, place) - 1])

    def document(self) -> dict[str, Any]:
        """Returns its figures as what JSON can hold; times in seconds."""
        marks = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTS}
        return {"count": len(self), "mean": self.mean, **marks, "max": self.max}
