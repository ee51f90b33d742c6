"""What an engine gives for a batch, as items."""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["items_of", "owned"]


def owned(output: Any, others: list[Any]) -> Any:
    """Returns an output that shares no memory with ``others``, to which it is added."""
    # A model may hand an input through, or one result on two ports. The consumers of one would
    # then see what those of the other write.
    if isinstance(output, np.ndarray):
        if any(np.may_share_memory(output, other) for other in others):
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
