"""Shapes that come from outside: how many axes and elements there can be."""

import math
from collections.abc import Sequence

from modelflow.wire.problem import Problem, shown

__all__ = ["MOST_AXES", "checked_shape"]

MOST_AXES = 32
"""NumPy 1 has no more."""

# As many bytes as a processor can address. Without a bound NumPy refuses shapes of its own accord,
# also those with an axis of length 0, of which a few bytes can ask for any other length.
_MOST_ELEMENTS = 1 << 48


def checked_shape(shape: object, where: str) -> tuple[int, ...]:
    """Returns a shape that came as a list.

    Args:
        shape: What came.
        where: What it is the shape of, for messages.

    Raises:
        Problem: it is no list of lengths, or of too many, or of more elements than there can be.
    """
    if not isinstance(shape, Sequence) or isinstance(shape, (str, bytes)):
        message = f"{where}: shape {shown(shape)}; expected a list of integers"
        raise Problem(message)
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        message = f"{where}: shape {shown(list(shape))}; expected integers of 0 or more"
        raise Problem(message)
    if len(shape) > MOST_AXES:
        message = f"{where}: {len(shape)} axes; at most {MOST_AXES} are possible"
        raise Problem(message)
    if math.prod(filter(None, shape)) > _MOST_ELEMENTS:
        message = (
            f"{where}: shape {shown(list(shape))}; its axes, those of 0 left out, may make 2**48 "
            "elements at most"
        )
        raise Problem(message)
    return tuple(shape)
