"""The kinds of device, the devices of this machine, the attributes ``device`` and ``deviceid``."""

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
        raise DeviceUnavailableError(
            f"device {', '.join(map(str, absent))} is not on this machine; available: {names}"
            + "".join(f"; {reason}" for reason in sorted(reasons))
        )


# What others call it.
_ALSO_CALLED = {"gpu": "cuda", "nvidia": "cuda", "x86": "cpu"}


def parse_devices(device: str = "cpu", deviceid: str | None = None) -> tuple[Device, ...]:
    """Reads the node attributes ``device`` and ``deviceid``.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:1``, ``auto``, or a list ``cuda:0,1;cpu:0``.
        deviceid: Numbers separated by commas, for a ``device`` that gives none.

    Returns:
        The devices named, in the order written. Whether they exist is not looked at, except that
        ``auto`` gives a CUDA device where the machine has one.

    Raises:
        ConfigError: the text is not of that form.
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
    """Returns what to say of a kind of device that there is not; "": there is.

    Args:
        kind: What was written.
        also: What may be written in its place.
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
