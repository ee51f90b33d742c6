"""Rows of one array: what was made side by side need not be gathered again.

A unit that gives the rows of one array has written the batch of whoever reads them. Where these, in
this order, are all that a batch is to be made of, the memory is taken as it lies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def join_rows(rows: Sequence[Any]) -> Array | None:
    """Returns the array that ``rows`` are the consecutive rows of; no copy is made.

    Args:
        rows: Arrays, two at least. Those of one shape and dtype that lie without a gap in the
            memory of one array can be joined, whoever made them.

    Returns:
        A view (len(rows), *shape) of the same dtype, read-only; None: they must be copied.
    """
    first = rows[0]
    whole = first.base
    # Most arrays have memory of their own: the second row settles it.
    if type(whole) is not np.ndarray or any(row.base is not whole for row in rows):
        return None
    if not whole.flags.c_contiguous or whole.dtype != first.dtype or not first.nbytes:
        return None
    start = at = _address(first)
    for row in rows:
        fits = row.shape == first.shape and row.dtype == first.dtype and row.flags.c_contiguous
        if not fits or _address(row) != at:
            return None
        at += first.nbytes
    place, rest = divmod(start - _address(whole), first.itemsize)
    if rest:
        return None
    count = len(rows) * first.size
    view: Array = whole.reshape(-1)[place : place + count].reshape(len(rows), *first.shape)
    view.flags.writeable = False
    return view


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
