"""Reads the sections of a unit file by their schema, and collects the mistakes."""

import numpy as np

from modelflow.config.document import Document, KeyReader
from modelflow.errors import did_you_mean
from modelflow.registry.folder_schema import PORT_KEYS
from modelflow.unit.port import ARRAY_TYPES, Port
from modelflow.unit.spec import DECLARED_TYPES

_SECTIONS = ("base", "config", "input", "output", "encryption")


class UnitSections(KeyReader):
    """The values of one unit file.

    Attributes:
        values: Section -> its values; missing sections are empty.
    """

    def __init__(self, document: Document) -> None:
        """Stores the document."""
        super().__init__(document)
        given = document.values
        self.values = {name: given.get(name, {}) for name in (*_SECTIONS, *given)}

    def check(self) -> None:
        """Checks for unknown sections."""
        for section in self.values:
            if section not in _SECTIONS:
                near = did_you_mean(section, _SECTIONS)
                known = ", ".join(_SECTIONS)
                self.wrong((section,), f"unknown section [{section}]{near} (sections: {known})")
        for section in _SECTIONS:
            self.values[section] = self.table((section,), self.values[section])

    def ports(self, side: str) -> tuple[Port, ...]:
        """Returns the ports of a side, ``input`` or ``output``."""
        tables = self.values[side]
        expected = [f"{side}{number}" for number in range(1, len(tables) + 1)]
        for key in tables:
            if key not in expected:
                self.wrong(
                    (side, key),
                    f"[{side}.{key}]: ports are numbered from {side}1 without gaps; "
                    f"expected {', '.join(expected)}",
                )
        ports = []
        for key in expected:
            if key in tables:
                keys = self.read((side, key), tables[key], PORT_KEYS)
                declared = {"dtype": keys["type"], "device": keys["device"]}
                ports.append(Port(keys["name"], keys["description"], **declared))
        return tuple(ports)

    def check_types(self) -> None:
        """Checks that the port types are array types, which only models need."""
        for side in ("input", "output"):
            for key, table in self.values[side].items():
                name = str(table.get("type") or "float32").lower()
                if not _is_type(DECLARED_TYPES.get(name, name)):
                    near = did_you_mean(name, [*DECLARED_TYPES, *ARRAY_TYPES])
                    self.wrong(
                        (side, key, "type"),
                        f"[{side}.{key}] type: got {table['type']!r}; expected a type of arrays: "
                        f"{', '.join(ARRAY_TYPES)}{near}",
                    )


def _is_type(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return name == "bfloat16"  # NumPy lacks this type
    return True
