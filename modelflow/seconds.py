"""Times that a caller gives: each timeout and each deadline of the Python interface."""

import math
from typing import Any, Literal

__all__ = ["check_limits", "check_seconds"]

# 31 years. What waits takes no infinite time, and none that is much longer.
_MOST = 1e9

_PER_SECOND = {"seconds": 1, "milliseconds": 1000}


def check_seconds(
    name: str, value: Any, unit: Literal["seconds", "milliseconds"] = "seconds"
) -> float:
    """Returns the seconds that were given as a time.

    Args:
        name: The argument that it was given as, for the error.
        value: What was given; negative: the time is over. ``math.inf``, and whatever is longer than
            30 years, is as long as nobody waits.
        unit: What the number counts.

    Raises:
        TypeError: it is no number.
        ValueError: it is NaN.
    """
    try:
        is_nan = math.isnan(value)
    except TypeError:
        kind = type(value).__name__
        message = f"{name}: got {value!r:.80} ({kind}); expected a number of {unit}"
        raise TypeError(message) from None
    except OverflowError:  # an integer that is larger than any float
        is_nan = False
    if is_nan:
        message = f"{name}: got {value!r}; expected a number of {unit}"
        raise ValueError(message)
    scale = _PER_SECOND[unit]
    most = _MOST * scale
    return float(max(-most, min(value, most))) / scale


def check_limits(
    timeout: float | None, deadline: float | None
) -> tuple[float | None, float | None]:
    """Returns what a call was given as its ``timeout`` and its ``deadline``, in seconds.

    Raises:
        TypeError, ValueError: as `check_seconds`.
    """
    return (
        None if timeout is None else check_seconds("timeout", timeout),
        None if deadline is None else check_seconds("deadline", deadline),
    )
