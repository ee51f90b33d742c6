"""Sizes that a caller gives: ``8GiB``, ``500MB``."""

import re
from typing import Any

__all__ = ["bytes_of"]

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
