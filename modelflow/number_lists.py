"""Arrays as lists of Python's numbers, for whatever writes them as text.

``np.float32(0.1)`` becomes ``0.1``; its own ``tolist()`` gives ``0.10000000149011612``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["number_lists"]


def number_lists(array: "npt.NDArray[Any] | np.generic") -> Any:
    """Returns an array as nested lists, where each float has the fewest digits that mean it.

    Args:
        array: Of any type; one without axes, or a scalar of NumPy's, gives a single value.
    """
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.str_).astype(np.float64)
    elif array.dtype.char in "gG":  # longer than Python's own
        array = array.astype(np.float64 if array.dtype.char == "g" else np.complex128)
    return array.tolist()
