"""Finds unit files in folders, and selects a unit by its name."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from modelflow.config.document import read_toml
from modelflow.errors import ConfigError, Location, did_you_mean, explain_os_error
from modelflow.registry.folder_modules import UnitFolders
from modelflow.registry.unit_file import FindUnit, UnitFileReader, UnusableUnit
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["UnusableUnit", "is_unit_file", "read_folder", "read_unit_file", "read_unit_folder"]

_MAX_BYTES = 1 << 20
_NAME = re.compile(r"^\s*name\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)
_SECTION = re.compile(r"^\s*\[", re.MULTILINE)
_BASE = re.compile(r"^\s*\[\s*base\s*\]|^\s*base\s*[.=]", re.MULTILINE)


def read_folder(
    folder: Path, find_unit: FindUnit, folders: UnitFolders
) -> Iterator[FlowUnitSpec | UnusableUnit]:
    """Yields the units of every unit file in ``folder`` and its subfolders.

    A unit file is a ``NAME.toml`` with a ``[base]`` section. Other TOML files, such as graphs, are
    ignored, and so are folders whose names begin with a dot. A wrong unit file is an error only
    when a graph names its unit. Then every mistake in the file is listed.

    Args:
        folder: The folder to search.
        find_unit: Finds the installed unit that a configuration-only unit builds on.
        folders: Gets the folders of its Python units.

    Raises:
        ConfigError: the folder does not exist, or a file in it cannot be read.
    """
    if not os.path.isdir(folder):
        raise ConfigError(
            f"{folder}: there is no such folder; [driver] dir names folders of flow units"
        )
    for path in _toml_files(folder):
        text = _text(path)
        if not _BASE.search(text):
            continue
        try:
            yield _unit(path, text, find_unit, folders)
        except ConfigError as error:
            yield UnusableUnit(
                _name_in(text) or path.stem,
                Location(str(path)),
                str(error),
                findings=tuple(error.findings),
            )


def is_unit_file(path: Path) -> bool:
    """Tells whether a TOML file has a ``[base]`` section, as every unit file has, even if wrong.

    Raises:
        ConfigError: the file cannot be read.
    """
    return path.is_file() and _BASE.search(_text(path)) is not None


def read_unit_file(path: Path, find_unit: FindUnit) -> FlowUnitSpec:
    """Returns the unit of one unit file.

    Raises:
        ConfigError: the file is no unit file, has mistakes (every mistake is listed), or this
            version cannot run its type.
    """
    return _usable(_unit(path, _text(path), find_unit, UnitFolders()))


def read_unit_folder(folder: Path, name: str | None = None) -> FlowUnitSpec:
    """Returns the unit in ``folder``, or the unit ``name`` if the folder has several units.

    Raises:
        ConfigError: the folder has no such unit, or several units and no name is given. Or the unit
            is wrong or cannot be used.
    """
    found = {unit.name: unit for unit in read_folder(folder, _no_unit, UnitFolders())}
    if name is None and len(found) == 1:
        (name,) = found
    if name is None or name not in found:
        units = ", ".join(found) or "none"
        what = f"no unit {name!r}{did_you_mean(name, found)}" if name else "expected one unit"
        raise ConfigError(f"{folder}: {what} (units: {units})")
    return _usable(found[name])


def _name_in(text: str) -> str:
    """Returns the name in ``[base]``, as far as a text with mistakes can be read."""
    base = _BASE.search(text)
    rest = "" if base is None else text[base.end() :]
    after = _SECTION.search(rest)
    name = _NAME.search(rest[: after.start()] if after else rest)
    return name[1] if name else ""


def _toml_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".toml"))


def _text(path: Path) -> str:
    """Returns the start of a file, because a unit file is small."""
    with explain_os_error(f"{path}: cannot be read"), path.open("rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", errors="replace")


def _unit(
    path: Path, text: str, find_unit: FindUnit, folders: UnitFolders
) -> FlowUnitSpec | UnusableUnit:
    return UnitFileReader(path, read_toml(text, str(path)), folders).unit(find_unit)


def _usable(unit: FlowUnitSpec | UnusableUnit) -> FlowUnitSpec:
    if isinstance(unit, UnusableUnit):
        raise unit.error()
    return unit


def _no_unit(name: str) -> FlowUnitSpec:
    raise ConfigError(f"a unit that configures {name!r} cannot be used here; use it in a graph")
