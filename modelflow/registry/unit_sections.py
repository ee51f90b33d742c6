"""The sections of a unit file, read by their schema; what is wrong with them is collected."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelflow.config.document import Document, KeyReader
from modelflow.errors import Finding, did_you_mean
from modelflow.registry.folder_schema import PORT_KEYS
from modelflow.unit.option import Option
from modelflow.unit.port import ARRAY_TYPES, Port
from modelflow.unit.spec import DECLARED_TYPES

_SECTIONS = ("base", "config", "input", "output", "encryption")


class UnitSections:
    """The values of one unit file.

    Attributes:
        values: Section -> its values; those that are left out are empty.
    """

    def __init__(self, document: Document) -> None:
        """Takes the file."""
        given = document.values
        self.values = {name: given.get(name, {}) for name in (*_SECTIONS, *given)}
        self._reader = KeyReader(document)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, so far."""
        return self._reader.findings

    def check(self) -> None:
        """Looks for sections that are none."""
        for section in self.values:
            if section not in _SECTIONS:
                near = did_you_mean(section, _SECTIONS)
                self.wrong(
                    f"unknown section [{section}]{near} (sections: {', '.join(_SECTIONS)})", section
                )
        for section in _SECTIONS:
            self.values[section] = self._reader.table((section,), self.values[section])

    def ports(self, side: str) -> tuple[Port, ...]:
        """Returns the ports of a side, ``input`` or ``output``."""
        tables = self.values[side]
        expected = [f"{side}{number}" for number in range(1, len(tables) + 1)]
        for key in tables:
            if key not in expected:
                self.wrong(
                    f"[{side}.{key}]: ports are numbered from {side}1 without gaps; "
                    f"expected {', '.join(expected)}",
                    f"{side}.{key}",
                )
        ports = []
        for key in expected:
            if key in tables:
                keys = self.keys(f"{side}.{key}", PORT_KEYS)
                declared = {"dtype": keys["type"], "device": keys["device"]}
                ports.append(Port(keys["name"], keys["description"], **declared))
        return tuple(ports)

    def check_types(self) -> None:
        """Checks that the types of the ports are types of arrays, which only models need."""
        for side in ("input", "output"):
            for key, table in self.values[side].items():
                name = str(table.get("type") or "float32").lower()
                if not _is_type(DECLARED_TYPES.get(name, name)):
                    near = did_you_mean(name, [*DECLARED_TYPES, *ARRAY_TYPES])
                    self.wrong(
                        f"[{side}.{key}] type: got {table['type']!r}; expected a type of arrays: "
                        f"{', '.join(ARRAY_TYPES)}{near}",
                        f"{side}.{key}",
                        "type",
                    )

    def keys(self, section: str, options: Sequence[Option]) -> dict[str, Any]:
        """Reads a section, ``base`` or ``input.input1``; what is wrong gets its default."""
        given: Any = self.values
        path = section.split(".")
        for part in path:
            given = given[part]
        return self._reader.read(path, given, options)

    def wrong(self, message: str, section: str | None = None, key: str | None = None) -> None:
        """Notes a mistake, with the line of a key or a section."""
        path = [] if section is None else section.split(".")
        self._reader.wrong([*path, *([] if key is None else [key])], message)


def _is_type(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return name == "bfloat16"  # NumPy lacks it
    return True
