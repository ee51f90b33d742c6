"""Percentiles of a sample, exactly."""

import math
from collections.abc import Sequence

__all__ = ["percentile_of"]


def percentile_of(rising: Sequence[float], percent: float) -> float:
    """Returns the least value that so many percent of a sample do not exceed; 0 of none.

    Args:
        rising: The sample, sorted.
        percent: From 0 to 100.
    """
    if not rising:
        return 0.0
    return rising[max(0, math.ceil(percent / 100.0 * len(rising)) - 1)]
