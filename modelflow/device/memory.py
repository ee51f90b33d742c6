"""The contract of a device plug-in: what can be done with the memory of one kind of device.

To add a kind of device: subclass `Memory` and name the class in the entry point group
``modelflow.devices`` (``KIND = "package.module:Class"``). A kind of modelflow's own stands in
the table of ``lookup.py`` instead. Flow units for it name the kind in
`FlowUnitSpec.devices`. The class loads its library in the first call that needs it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from modelflow.device.device import Device


class Memory(ABC):
    """The memory of all devices of one kind. One instance serves the process, from any thread.

    Calls may return before the device has done its work; what is done to the same data afterwards,
    on the same thread, comes behind it. Other threads wait for a `fence`.

    Attributes:
        kind: The device kind, as graphs name it.
    """

    kind: ClassVar[str]

    @abstractmethod
    def count(self) -> int:
        """Returns how many devices of this kind the machine has; must be quick and light."""

    def found(self) -> str:
        """Returns what was found, for the error about a device that is not there; or ``""``."""
        return ""

    @abstractmethod
    def holds(self, data: Any) -> bool:
        """Tells whether ``data`` is an array in memory of this kind."""

    @abstractmethod
    def device_of(self, data: Any) -> Device:
        """Returns the device on which an array lies that this memory holds."""

    @abstractmethod
    def dtype_of(self, data: Any) -> "np.dtype[Any] | None":
        """Returns the element type of an array of this memory; None where NumPy has none such."""

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
            items: Arrays of one shape, on the host or in this memory (of any of its devices).
            size: The length of axis 0; rows behind the items are zeros.
            dtype: The element type; items of another one are converted.
            device: Where the array shall lie.
            shape: The shape of each row, where items may be smaller: they lie at its beginning, the
                rest is zeros. None: the items' own.
        """

    @abstractmethod
    def upload(self, arrays: Sequence[Any], device: Device) -> list[Any]:
        """Returns arrays of the host, or of another device of this kind, on ``device``.

        They may differ in shape and dtype. The order stays.
        """

    @abstractmethod
    def download(self, arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Returns arrays of this memory on the host, in order; waits until they are there."""

    def running(self, device: Device) -> AbstractContextManager[Any]:
        """Returns the context in which a worker thread calls its unit (a CUDA stream, say)."""
        del device
        return nullcontext()

    def fence(self, device: Device) -> Any:
        """Returns a mark behind the work that this thread has given to ``device`` so far.

        None where every call is done when it returns.
        """
        del device

    def wait(self, fence: Any, arrays: Sequence[Any]) -> None:
        """Makes what this thread does next with ``arrays`` come behind ``fence``."""
        del fence, arrays
