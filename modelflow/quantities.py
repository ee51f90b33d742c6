"""Times and sizes that a caller gives: timeouts, deadlines, ``8GiB``, ``500MB``."""

import math
import re
from typing import Any

# 31 years. What waits takes no infinite time, and none that is much longer.
_MOST = 1e9


def check_seconds(name: str, value: Any) -> float:
    """Returns the seconds that were given as a time.

    Args:
        name: The argument that it was given as, for the error.
        value: What was given; negative: the time is over. ``math.inf``, and whatever is longer than
            30 years, is as long as nobody waits.

    Raises:
        TypeError: it is no number.
        ValueError: it is NaN.
    """
    try:
        is_nan = math.isnan(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}: got {value!r:.80} ({kind}); expected a number of seconds"
        ) from None
    except OverflowError:  # an integer that is larger than any float
        is_nan = False
    if is_nan:
        raise ValueError(f"{name}: got {value!r}; expected a number of seconds")
    return float(max(-_MOST, min(value, _MOST)))


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


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?\s*\Z")
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def bytes_of(given: Any) -> float | None:
    """Reads a size: ``8GiB``, ``500MB``, a number of bytes; None: it is of another form."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    matched = _SIZE.match(str(given))
    return None if matched is None else float(matched[1]) * _UNITS[matched[2] or ""]


def count_of(number: int, name: str) -> str:
    """Returns ``1 item``, ``2 items``."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
