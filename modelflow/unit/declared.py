"""What a unit file declares, before anybody has made a unit of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelflow.unit.port import Port

__all__ = ["DECLARED_TYPES", "UnitFile"]

# What the type of a port is called in NumPy; other names are NumPy's own.
DECLARED_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32",
        "double": "float64",
        "int": "int32",
        "long": "int64",
        "half": "float16",
        "string": "object",
        "str": "object",
    }
)


@dataclass(frozen=True)
class UnitFile:
    """What a unit file says, for the type of unit that its ``type`` names.

    Beside those that come with modelflow, types are the entry points ``modelflow.unit_types``: a
    callable that takes this value and returns the `FlowUnitSpec`.
    """

    path: Path
    """The file."""
    entry: Path
    """What ``entry`` names, in the file's folder."""
    virtual_type: str
    """As written."""
    inputs: tuple[Port, ...]
    """The input ports."""
    outputs: tuple[Port, ...]
    """The output ports."""
    config: Mapping[str, Any]
    """The section ``[config]``."""
    common: Mapping[str, Any]
    """What every unit has, as arguments of `FlowUnitSpec`: name, description, ..."""
