"""The memory of the host: NumPy arrays, gathered into blocks of the pool."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device.device import CPU, Device
from modelflow.device.memory import Memory
from modelflow.device.pool import empty

__all__ = ["HostMemory"]


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
    ) -> npt.NDArray[Any]:
        """Gathers into an array of the pool; a single item that fits as it is gives a view."""
        first = items[0]
        wanted = np.dtype(dtype)
        if size == 1 and first.dtype == wanted and first.flags.c_contiguous:
            view: npt.NDArray[Any] = first[np.newaxis]
            return view
        if wanted.hasobject:  # text
            staged: npt.NDArray[Any] = np.full((size, *first.shape), b"", object)
        else:
            staged = empty((size, *first.shape), wanted)
            staged[len(items) :] = 0
        for row, item in enumerate(items):
            staged[row] = item
        return staged

    def upload(self, arrays: Sequence[Any], device: Device = CPU) -> list[Any]:  # noqa: ARG002
        """Returns the arrays as they are."""
        return list(arrays)

    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Returns the arrays as they are."""
        return list(arrays)
