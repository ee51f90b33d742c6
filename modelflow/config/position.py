"""Where a node stands in the picture, as a graph file says it: Graphviz's ``pos="x,y!"``.

A position is that of the middle of a node in points (1/72 inch), x to the right; in a file y goes
upwards, as in Graphviz, and in a `Position` downwards, as on a page.
"""

import math
import re
from typing import Any

__all__ = ["Position", "read_position", "written_position"]

Position = tuple[float, float]
"""x to the right and y downwards, in points."""

_POINT = re.compile(r"\s*([-+.\deE]+)\s*,\s*([-+.\deE]+)\s*!?\s*\Z")
# A picture that is larger shows nothing.
_FARTHEST = 1e6


def read_position(value: Any) -> Position | None:
    """Returns the position that ``pos`` gives; None: it gives none, and is nothing but drawn with.

    Args:
        value: What the file says: ``"x,y"`` or ``"x,y!"``, or a list of two numbers.
    """
    found = _POINT.match(value) if isinstance(value, str) else None
    parts = found.groups() if found else value
    if not isinstance(parts, list | tuple) or len(parts) != 2:
        return None
    try:
        x, y = (float(part) for part in parts)
    except (TypeError, ValueError):
        return None
    if not (math.isfinite(x) and math.isfinite(y)) or max(abs(x), abs(y)) > _FARTHEST:
        return None
    return x, -y


def written_position(position: Position) -> str:
    """Returns a position as ``pos`` has it, in whole points; `read_position` is its inverse."""
    x, y = position
    return f"{round(x)},{round(-y)}!"
