"""The interface of device plug-ins: the operations on the memory of one kind of device.

To add a kind of device, subclass `Memory` and name the class in the entry point group
``modelflow.devices`` (``KIND = "package.module:Class"``). The built-in kinds are in the table of
``lookup.py`` instead. Flow units for the kind name it in `FlowUnitSpec.devices`. The class loads
its library in the first call that needs it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelflow.device.device import Device


class Memory(ABC):
    """The memory of all devices of one kind. One instance serves all threads of the process.

    Calls may return before the device has finished. Later operations on the same data, on the same
    thread, run after them. Other threads wait for a `fence`.

    Attributes:
        kind: The device kind, as graphs name it.
    """

    kind: ClassVar[str]

    @abstractmethod
    def count(self) -> int:
        """Returns the number of devices of this kind. Must be fast and load no library."""

    def describe_found(self) -> str:
        """Returns the devices found, for the error about a missing device, or ``""``."""
        return ""

    @abstractmethod
    def holds(self, data: Any) -> bool:
        """Tells whether ``data`` is an array in memory of this kind."""

    @abstractmethod
    def device_of(self, data: Any) -> Device:
        """Returns the device of an array that this memory holds."""

    @abstractmethod
    def dtype_of(self, data: Any) -> "np.dtype[Any] | None":
        """Returns the element type of an array of this memory, or None if NumPy lacks the type."""

    @abstractmethod
    def gather(
        self,
        items: Sequence[Any],
        size: int,
        dtype: npt.DTypeLike,
        device: Device,
        shape: tuple[int, ...] | None = None,
    ) -> Any:
        """Returns ``items`` as one C-contiguous array of ``size`` rows on ``device``.

        Args:
            items: Arrays of one shape, on the host or on any device of this memory.
            size: The length of axis 0. The rows after the items are zeros.
            dtype: The element type, to which items are converted.
            device: The device of the result.
            shape: The shape of each row, if items may be smaller. An item is copied to the
                beginning of its row, and the rest is zeros. By default the shape of the items.
        """

    @abstractmethod
    def upload(self, arrays: Sequence[Any], device: Device) -> list[Any]:
        """Returns arrays of the host, or of another device of this kind, on ``device``.

        The arrays may differ in shape and dtype. Their order is kept.
        """

    @abstractmethod
    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Returns arrays of this memory as host arrays, in order, after the copies are complete."""

    def running(self, device: Device) -> AbstractContextManager[Any]:
        """Returns the context in which a worker thread calls its unit (a CUDA stream, say)."""
        del device
        return nullcontext()

    def fence(self, device: Device) -> Any:
        """Returns a mark after the work that this thread has submitted to ``device`` so far.

        Returns None if every call is complete when it returns.
        """
        del device

    def wait(self, fence: Any, arrays: Sequence[Any]) -> None:
        """Makes later work of this thread on ``arrays`` run after ``fence``."""
        del fence, arrays
