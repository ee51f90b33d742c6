"""What an engine gives for a batch, as items."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["items_of", "owned"]


def owned(output: Any, others: list[Any]) -> Any:
    """Returns an output that shares no memory with ``others`` or with the model; adds it to them.

    Args:
        output: The caller gives it away: a reference that it keeps would look like the model's.
        others: The inputs, and the outputs before.
    """
    # A model may hand an input through, or one result on two ports. The consumers of one would
    # then see what those of the other write. What it still refers to, its next call may overwrite.
    if isinstance(output, np.ndarray):
        if _is_held(output) or any(np.may_share_memory(output, other) for other in others):
            output = output.copy()
    elif any(output is other for other in others):
        output = output.clone()
    others.append(output)
    return output


def items_of(output: Any) -> Sequence[Any]:
    """Returns the rows of an output: views."""
    if not isinstance(output, np.ndarray):
        rows: Sequence[Any] = output.unbind(0)
        return rows
    # Iterating one axis would give scalars; text stays bytes, numbers become arrays of shape ().
    if output.ndim > 1 or output.dtype == object:
        return list(output)
    return [output[row, ...] for row in range(len(output))]


def _is_held(output: npt.NDArray[Any]) -> bool:
    """Tells whether the model still refers to an output, or to what it is a view of."""
    if sys.getrefcount(output) > _OF_OUTPUT:
        return True
    return output.base is not None and sys.getrefcount(output.base) > _OF_BASE


def _calibrate(output: npt.NDArray[Any]) -> tuple[int, int]:
    """Counts the references to an array that nobody else holds, and to its base."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1, -1  # such counts say nothing: every output is copied

    def count(output: npt.NDArray[Any]) -> tuple[int, int]:  # as deep in calls as `_is_held`
        return sys.getrefcount(output), sys.getrefcount(output.base)

    return count(output)


_OF_OUTPUT, _OF_BASE = _calibrate(np.empty(2)[:1])
