"""`Device`: where a unit runs."""

from modelflow.device import CPU
from modelflow.device import Device as NativeDevice

__all__ = ["Device"]


class Device:
    """Where a unit runs."""

    def __init__(self, native: NativeDevice = CPU) -> None:
        self._native = native

    def get_device_id(self) -> str:
        """Returns the number, as text."""
        return str(self._native.index)

    def get_type(self) -> str:
        """Returns the kind: ``cpu``, ``cuda``."""
        return self._native.kind

    def get_device_desc(self) -> str:
        """Returns kind and number."""
        return str(self._native)
