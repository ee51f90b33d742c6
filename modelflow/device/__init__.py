"""Devices: where a node runs and where its data lies."""

from modelflow.device.device import (
    CPU,
    Device,
    available_devices,
    parse_devices,
    require_devices,
)
from modelflow.device.pool import ArrayPool, empty

__all__ = [
    "CPU",
    "ArrayPool",
    "Device",
    "available_devices",
    "empty",
    "parse_devices",
    "require_devices",
]
