"""The memory of the host: NumPy arrays, gathered into blocks of the pool.

A unit may emit the rows of one array. If exactly these rows, in this order, form the batch of the
next unit, the batch is a view of the array, without a copy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device.device import CPU, Device
from modelflow.device.memory import Memory
from modelflow.device.pool import empty

Array = npt.NDArray[Any]


def join_rows(rows: Sequence[Any]) -> Array | None:
    """Returns the array whose consecutive rows are ``rows``, without a copy.

    Args:
        rows: At least two arrays. Any arrays can be joined that have the same shape and dtype and
            are adjacent in the memory of one array.

    Returns:
        A read-only view (len(rows), *shape) of the same dtype. None if the rows must be copied.
    """
    first = rows[0]
    whole = first.base
    # Most arrays have their own memory. Then the second row already shows that joining is
    # impossible.
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


class HostMemory(Memory):
    """The host's own memory."""

    kind = "cpu"

    def count(self) -> int:
        """Returns 1, because all processors share one memory."""
        return 1

    def holds(self, data: Any) -> bool:
        """Tells whether ``data`` is a NumPy array."""
        return isinstance(data, np.ndarray)

    def device_of(self, data: Any) -> Device:  # noqa: ARG002 - there is only one device
        """Returns the CPU."""
        return CPU

    def dtype_of(self, data: Any) -> "np.dtype[Any] | None":
        """Returns the array's own dtype."""
        dtype: np.dtype[Any] = data.dtype
        return dtype

    def gather(
        self,
        items: Sequence[Any],
        size: int,
        dtype: npt.DTypeLike,
        device: Device = CPU,  # noqa: ARG002 - there is only one device
        shape: tuple[int, ...] | None = None,
    ) -> npt.NDArray[Any]:
        """Gathers items into an array of the pool; adjacent rows become a view."""
        first = items[0]
        wanted = np.dtype(dtype)
        if size == len(items) and first.dtype == wanted and shape is None:
            view = _as_it_lies(items)
            if view is not None:
                return view
        whole = (size, *(first.shape if shape is None else shape))
        if wanted.hasobject:  # text
            staged: npt.NDArray[Any] = np.full(whole, b"", object)
        else:
            staged = empty(whole, wanted)
            staged[0 if shape is not None else len(items) :] = 0
        fill(staged, items, shape)
        return staged

    def upload(self, arrays: Sequence[Any], device: Device = CPU) -> list[Any]:  # noqa: ARG002
        """Returns the same arrays."""
        return list(arrays)

    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Returns the same arrays."""
        return list(arrays)


def _as_it_lies(items: Sequence[Any]) -> npt.NDArray[Any] | None:
    if len(items) > 1:
        return join_rows(items)
    view: npt.NDArray[Any] = items[0][np.newaxis]
    return view if view.flags.c_contiguous else None


def fill(
    staged: npt.NDArray[Any], items: Sequence[Any], shape: tuple[int, ...] | None = None
) -> None:
    """Copies items into the rows of an array; with ``shape`` to the beginning of each row."""
    for row, item in enumerate(items):
        if shape is None:
            staged[row, ...] = item  # staged[row] would keep a text array without axes an array
        else:
            staged[row][tuple(map(slice, item.shape))] = item
