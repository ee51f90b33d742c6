"""Devices, on which nodes run and arrays are stored."""

from modelflow.device.device import CPU, Device
from modelflow.device.lookup import (
    array_dtype,
    available_devices,
    device_memories,
    kind_problem,
    memory_kinds,
    memory_of,
    parse_devices,
    require_devices,
)
from modelflow.device.memory import Memory
from modelflow.device.pool import ArrayPool, empty, host_pool

__all__ = [
    "CPU",
    "ArrayPool",
    "Device",
    "Memory",
    "array_dtype",
    "available_devices",
    "device_memories",
    "empty",
    "host_pool",
    "kind_problem",
    "memory_kinds",
    "memory_of",
    "parse_devices",
    "require_devices",
]
