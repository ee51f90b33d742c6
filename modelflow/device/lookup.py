"""Finds device kinds and devices, and parses the attributes ``device`` and ``deviceid``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelflow.device.device import Device
from modelflow.device.memory import Memory
from modelflow.errors import ConfigError, DeviceUnavailableError, PlanError, did_you_mean
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
    """Returns the kinds of device that graphs may name, beginning with the built-in kinds."""
    return MEMORIES.names()


def memory_of(kind: str) -> Memory:
    """Returns the memory of a kind of device, without loading its library.

    Raises:
        PlanError: the kind is unknown, or its plug-in cannot be imported.
    """
    return MEMORIES.find(kind)


def device_memories() -> tuple[Memory, ...]:
    """Returns the memories of all device kinds except the host's."""
    return tuple(memory_of(kind) for kind in memory_kinds() if kind != "cpu")


def array_dtype(data: Any) -> "np.dtype[Any] | None":
    """Returns the element type of an array on any device, or None for other data.

    The result is None as well if NumPy lacks the type (bfloat16).
    """
    if isinstance(data, np.ndarray):
        dtype: np.dtype[Any] = data.dtype
        return dtype
    for memory in device_memories():
        if memory.holds(data):
            return memory.dtype_of(data)
    return None


def available_devices() -> tuple[Device, ...]:
    """Returns the devices of this machine, the CPU first. Loads no GPU library but the driver."""
    return tuple(
        Device(kind, index) for kind in memory_kinds() for index in range(memory_of(kind).count())
    )


def require_devices(devices: Sequence[Device]) -> None:
    """Checks that devices exist.

    Raises:
        DeviceUnavailableError: a device is missing. The message names the existing devices.
    """
    existing = available_devices()
    absent = [device for device in devices if device not in existing]
    if absent:
        names = ", ".join(map(str, existing))
        reasons = {memory_of(device.kind).describe_found() for device in absent} - {""}
        raise DeviceUnavailableError(
            f"device {', '.join(map(str, absent))} is not on this machine; available: {names}"
            + "".join(f"; {reason}" for reason in sorted(reasons))
        )


# Other names of the kinds.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "x86": "cpu"}


def parse_devices(device: str = "cpu", deviceid: str | None = None) -> tuple[Device, ...]:
    """Reads the node attributes ``device`` and ``deviceid``.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``, ``auto``, or a list ``cuda:0,1;cpu:0``.
        deviceid: Numbers separated by commas, for a ``device`` without numbers.

    Returns:
        The named devices, in their order. Only ``auto`` checks whether a device exists: it is a
        CUDA device if the machine has one.

    Raises:
        ConfigError: the text has another form.
    """
    groups = [part.strip() for part in device.split(";") if part.strip()]
    if not groups:
        raise ConfigError(
            "device: got an empty string; expected 'cpu', 'cuda', 'auto' or 'cuda:0,1;cpu:0'"
        )
    has_numbers = any(":" in group for group in groups)
    if deviceid is not None and (has_numbers or len(groups) > 1):
        raise ConfigError(
            f"deviceid: got {deviceid!r} beside device {device!r}, which names its own numbers; "
            "give one of the two"
        )
    found: list[Device] = []
    for group in groups:
        kind, colon, numbers = group.partition(":")
        written = numbers if colon else (deviceid if deviceid is not None else "0")
        found.extend(Device(_kind(kind.strip()), number) for number in _numbers(written, device))
    return tuple(dict.fromkeys(found))


def _kind(kind: str) -> str:
    if kind == "auto":
        return "cuda" if any(device.kind == "cuda" for device in available_devices()) else "cpu"
    if problem := kind_problem(kind, "auto"):
        raise ConfigError(f"device: {problem}")
    return kind


def kind_problem(kind: str, *also: str) -> str:
    """Returns the error about an unknown kind of device, or "" for a known kind.

    Args:
        kind: The name in the graph.
        also: Further names that are allowed.
    """
    known = [*memory_kinds(), *also]
    if kind in known:
        return ""
    expected = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
    other = _ALSO_CALLED.get(kind.lower())
    near = f"; did you mean {other!r}?" if other else did_you_mean(kind, known)
    return f"got {kind!r}; expected {expected}{near}"


def _numbers(text: str, device: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdecimal() and len(number) <= 4 for number in numbers):
        raise ConfigError(
            f"device {device!r}: got the number {text!r}; expected a number, or a list '0,1'"
        )
    return [int(number) for number in numbers]
