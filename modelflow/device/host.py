"""The memory of the host: NumPy arrays, gathered into blocks of the pool.

A unit that gives the rows of one array has written the batch of whoever reads them. Where these, in
this order, are all that a batch is to be made of, the memory is taken as it lies.
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


class HostMemory(Memory):
    """The host's own memory."""

    kind = "cpu"

    def count(self) -> int:
        """Returns 1: all processors share one memory."""
        return 1

    def holds(self, data: Any) -> bool:
        """Tells whether ``data`` is a NumPy array."""
        return isinstance(data, np.ndarray)

    def device_of(self, data: Any) -> Device:  # noqa: ARG002 - there is one
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
        device: Device = CPU,  # noqa: ARG002 - there is one
        shape: tuple[int, ...] | None = None,
    ) -> npt.NDArray[Any]:
        """Gathers into an array of the pool; what lies there as wanted already gives a view."""
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
        """Returns the arrays as they are."""
        return list(arrays)

    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Returns the arrays as they are."""
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
            staged[row, ...] = item  # not staged[row]: text of no axes would stay an array
        else:
            staged[row][tuple(map(slice, item.shape))] = item
