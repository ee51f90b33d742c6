"""The sections of a unit file, read by their schema; what is wrong with them is collected."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.errors import ConfigError, Finding, Location, did_you_mean
from modelflow.registry.folder_schema import PORT_KEYS
from modelflow.unit.option import Option
from modelflow.unit.port import Port

__all__ = ["UnitSections"]

_SECTIONS = ("base", "config", "input", "output", "encryption")


class UnitSections:
    """The values of one unit file.

    Attributes:
        values: Section -> its values; those that are left out are empty.
        findings: What is wrong, so far.
    """

    def __init__(self, path: Path, text: str, values: Mapping[str, Any]) -> None:
        """Takes the file's path, its text, and the values of the text."""
        self._path = path
        self._text = text
        self.values = {name: values.get(name, {}) for name in (*_SECTIONS, *values)}
        self.findings: list[Finding] = []

    def check(self) -> None:
        """Looks for sections that are none."""
        for section in self.values:
            if section not in _SECTIONS:
                near = did_you_mean(section, _SECTIONS)
                self.wrong(
                    f"unknown section [{section}]{near} (sections: {', '.join(_SECTIONS)})", section
                )
        for section in _SECTIONS:
            if not isinstance(self.values[section], dict):
                got = self.values[section]
                self.wrong(f"{section}: got {got!r}; expected a section [{section}]")
                self.values[section] = {}

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
                ports.append(
                    Port(
                        keys["name"],
                        keys["description"],
                        dtype=keys["type"],
                        device=keys["device"],
                    )
                )
        return tuple(ports)

    def keys(self, section: str, options: Sequence[Option]) -> dict[str, Any]:
        """Reads a section, ``base`` or ``input.input1``; what is wrong gets its default."""
        first, _, second = section.partition(".")
        given = self.values[first][second] if second else self.values[first]
        known = {option.name: option for option in options}
        found = {option.name: "" if option.is_required else option.default for option in options}
        if not isinstance(given, dict):
            self.wrong(f"[{section}]: got {given!r}; expected a section", first)
            return found
        for key, value in given.items():
            if key not in known:
                near = did_you_mean(key, known)
                message = f"[{section}]: unknown key {key!r}{near} (keys: {', '.join(known)})"
                self.wrong(message, section, key)
                continue
            try:
                found[key] = known[key].convert(value)
            except ConfigError as error:
                problem = str(error).replace("option", "key", 1)
                self.wrong(f"[{section}]: {problem}", section, key)
        for option in options:
            if option.is_required and not given.get(option.name, ""):
                self.wrong(f"[{section}]: {option.name!r} is required: {option.help}", section)
        return found

    def wrong(self, message: str, section: str | None = None, key: str | None = None) -> None:
        """Notes a mistake, with the line of a key or a section."""
        line = None if section is None else _line(self._text, section, key)
        at = Location(str(self._path), line)
        self.findings.append(Finding(at, message, error=ConfigError))


def _line(text: str, section: str, key: str | None) -> int | None:
    """Returns the line of ``key`` in ``[section]``, or of its head; None where it has none."""
    head = re.compile(r"\s*\[\s*" + re.escape(section).replace(r"\.", r"\s*\.\s*") + r"\s*\]")
    entry = None if key is None else re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]")
    found = None
    for number, line in enumerate(text.splitlines(), 1):
        if found is None:
            found = number if head.match(line) else None
        elif entry is None or line.lstrip().startswith("["):
            break
        elif entry.match(line):
            return number
    return found
