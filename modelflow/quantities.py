"""Times and sizes that a caller gives: timeouts, deadlines, ``8GiB``, ``500MB``."""

import math
import re
from typing import Any

# 31 years in seconds. Waits of the standard library raise an error for an infinite time, and for
# times that are much longer than this.
_MOST = 1e9


def check_seconds(name: str, value: Any) -> float:
    """Returns a time as a number of seconds between -31 and 31 years.

    Args:
        name: The name of the argument, for the error.
        value: The given time. A negative time has already passed. ``math.inf`` and times beyond 30
            years mean no limit in practice.

    Raises:
        TypeError: The value is no number.
        ValueError: The value is NaN.
    """
    try:
        is_nan = math.isnan(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}: got {value!r:.80} ({kind}); expected a number of seconds"
        ) from None
    except OverflowError:  # an integer above the largest float
        is_nan = False
    if is_nan:
        raise ValueError(f"{name}: got {value!r}; expected a number of seconds")
    return float(max(-_MOST, min(value, _MOST)))


def check_limits(
    timeout: float | None, deadline: float | None
) -> tuple[float | None, float | None]:
    """Returns the ``timeout`` and the ``deadline`` of a call in seconds.

    Raises:
        TypeError, ValueError: As `check_seconds`.
    """
    return (
        None if timeout is None else check_seconds("timeout", timeout),
        None if deadline is None else check_seconds("deadline", deadline),
    )


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?\s*\Z")
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def bytes_of(given: Any) -> float | None:
    """Parses a size such as ``8GiB``, ``500MB`` or a number of bytes.

    Returns:
        The number of bytes, or None for another form.
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    matched = _SIZE.match(str(given))
    return None if matched is None else float(matched[1]) * _UNITS[matched[2] or ""]


def count_of(number: int, name: str) -> str:
    """Returns a number with its noun, as in ``1 item`` or ``2 items``."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
