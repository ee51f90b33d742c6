"""Finding the kinds of device, built in and plugged in, and the devices of this machine."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelflow.device.device import Device
from modelflow.device.memory import Memory
from modelflow.errors import DeviceUnavailableError, PlanError
from modelflow.plugins import Plugins

GROUP = "modelflow.devices"

MEMORIES = Plugins(
    GROUP,
    "device",
    Memory,  # type: ignore[type-abstract]
    {
        "cpu": "modelflow.device.host:HostMemory",
        "cuda": "modelflow.device.torch_memory:CudaMemory",
    },
    PlanError,
)


def memory_kinds() -> tuple[str, ...]:
    """Returns the kinds of device that graphs may name, the built-in ones first."""
    return MEMORIES.names()


def memory_of(kind: str) -> Memory:
    """Returns the memory of a kind of device; its library is not loaded yet.

    Raises:
        PlanError: there is no such kind, or its plug-in cannot be imported.
    """
    return MEMORIES.find(kind)


def device_memories() -> tuple[Memory, ...]:
    """Returns the memories of all kinds of device but the host's."""
    return tuple(memory_of(kind) for kind in memory_kinds() if kind != "cpu")


def array_dtype(data: Any) -> "np.dtype[Any] | None":
    """Returns the element type of an array, wherever it lies; None for anything else.

    None also for an array of a type that NumPy lacks (bfloat16).
    """
    if isinstance(data, np.ndarray):
        dtype: np.dtype[Any] = data.dtype
        return dtype
    for memory in device_memories():
        if memory.holds(data):
            return memory.dtype_of(data)
    return None


def available_devices() -> tuple[Device, ...]:
    """Returns the devices of this machine, the CPU first; loads no GPU library but the driver."""
    return tuple(
        Device(kind, index) for kind in memory_kinds() for index in range(memory_of(kind).count())
    )


def require_devices(devices: Sequence[Device]) -> None:
    """Checks that devices exist.

    Raises:
        DeviceUnavailableError: one does not; the message names those that do.
    """
    existing = available_devices()
    absent = [device for device in devices if device not in existing]
    if absent:
        names = ", ".join(map(str, existing))
        reasons = {memory_of(device.kind).found() for device in absent} - {""}
        message = (
            f"device {', '.join(map(str, absent))} is not on this machine; available: {names}"
            + "".join(f"; {reason}" for reason in sorted(reasons))
        )
        raise DeviceUnavailableError(message)
