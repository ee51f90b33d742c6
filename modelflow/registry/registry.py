"""Finds flow units by name: name -> `FlowUnitSpec`."""

import importlib
import inspect
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from modelflow.errors import ConfigError, UnknownFlowUnitError, did_you_mean, find_line
from modelflow.plugins import find_entry_points
from modelflow.registry.folder import UnusableUnit, read_folder
from modelflow.registry.folder_modules import UnitFolders
from modelflow.unit.function import list_declared
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

GROUP = "modelflow.flowunits"
# Named here, because a checkout that is not installed has no entry points.
_BUILT_IN = EntryPoint("builtin", "flowunits:SPECS", GROUP)

# Most units of a folder that an error names.
_MOST_NAMED = 8

Unit = FlowUnitSpec | UnusableUnit
# Name or alias -> its units. More than one if the units conflict.
Table = dict[str, list[Unit]]


class Registry:
    """The flow units that a graph can use.

    Units have this order of precedence: given units, units in folders, decorated units in imported
    modules, and units of installed packages, including the built-in units.

    A faulty unit does not affect the others. A repeated name, a unit of an unsupported type, and an
    installed package whose import fails become errors when they are looked up. They are also
    sentences of `problems`. Only an unreadable file, and a name repeated among the given units, are
    errors at once.

    Attributes:
        broken: Installed package -> the exception of its import, for the packages loaded so far.
        absent: A sentence for each missing folder. It becomes part of an error only if a unit is
            missing.
        not_skipped: Units of installed packages that were found although ``skip_default`` is true.
    """

    def __init__(
        self,
        dirs: Iterable[str | Path] = (),
        *,
        skip_default: bool = False,
        units: Iterable[Any] = (),
    ) -> None:
        """Reads the folders. Installed packages are loaded when first needed.

        Args:
            dirs: Folders that are searched for unit files (``NAME.toml``), including their
                subfolders.
            skip_default: Whether to skip installed packages, except for units that only they have.
            units: Specs, decorated functions, `FlowUnit` classes with a ``SPEC``, or modules.

        Raises:
            ConfigError: a name is repeated among the given units.
        """
        self.broken: dict[str, Exception] = {}
        self._dirs = tuple(map(str, dirs))
        absent = [folder for folder in self._dirs if not os.path.isdir(folder)]
        self.absent = tuple(
            f"the folder {folder} of [driver] dir is not there{_near_folder(Path(folder))}"
            for folder in absent
        )
        self._skip_default = skip_default
        self.not_skipped: set[str] = set()
        self._given = _by_name(spec for unit in units for spec in specs_in(unit))
        for name in self._given:
            _only(name, self._given, "the units given")
        folders = UnitFolders()
        self._folders = _by_name(
            unit
            for folder in self._dirs
            if folder not in absent
            for unit in read_folder(Path(folder), self._base_unit, folders)
        )

    def find(self, name: str) -> FlowUnitSpec:
        """Returns the unit ``name``: a name, an alias, or ``package.module:function``.

        Raises:
            UnknownFlowUnitError: the unit does not exist. The message names a similar name.
            ConfigError: ``package.module:function`` cannot be imported, or is no flow unit. Or two
                units have the name, or this version cannot run the unit.
        """
        if ":" in name:
            return _import(name)
        is_given = name in self._given or name in self._folders
        if not is_given and (built_in := self._find_built_in(name)):
            return built_in
        for where, table in self._tables(skips=False):
            if name in table:
                if self._skip_default and table is self._packages:
                    self.not_skipped.add(name)
                return _only(name, table, where)
        raise self._unknown(name)

    def knows(self, name: str) -> bool:
        """Tells whether a usable or faulty unit ``name`` exists; suggests no similar names.

        A name of the form ``package.module:function`` counts as known: only `find` imports it.
        """
        return ":" in name or any(name in table for _, table in self._tables(skips=False))

    def specs(self) -> Sequence[FlowUnitSpec]:
        """Returns every usable unit once, by name."""
        found: dict[str, FlowUnitSpec] = {}
        for _, table in self._tables():
            for unit in (unit for units in table.values() for unit in units):
                if isinstance(unit, FlowUnitSpec):
                    found.setdefault(unit.name, unit)
        return [found[name] for name in sorted(found)]

    def problems(self) -> Sequence[str]:
        """Returns a sentence for each unit, name or package that cannot be used, and why."""
        found = []
        for where, table in self._tables():
            for name in table:
                try:
                    _only(name, table, where)
                except ConfigError as error:
                    found.append(str(error))
        return [*found, *self.absent, *self._missing()]

    def _tables(self, *, skips: bool = True) -> Iterable[tuple[str, Table]]:
        """Yields the tables in the order of precedence, with or without the skipped packages."""
        yield "the units given", self._given
        yield "the unit folders", self._folders
        packages = {} if self._skip_default else self._packages
        # Functions of packages are declared when the package is loaded, but they belong to the
        # package.
        theirs = {id(unit) for units in packages.values() for unit in units}
        yield "decorated functions", _by_name(s for s in list_declared() if id(s) not in theirs)
        yield "installed packages", packages if skips else self._packages

    def _find_built_in(self, name: str) -> FlowUnitSpec | None:
        """Returns the built-in unit of that name, without importing the other built-in units.

        The result is None if a decorated function or an installed package may have the name, too.
        """
        is_hidden = self._skip_default or name in _by_name(list_declared())
        if is_hidden or self._installed or not name.isidentifier():
            return None
        try:
            found: FlowUnitSpec = importlib.import_module(f"{_BUILT_IN.module}.{name}").SPEC
        except Exception:  # noqa: BLE001 - `_packages` finds the same error, and keeps it for a message
            return None
        return found

    @cached_property
    def _installed(self) -> tuple[EntryPoint, ...]:
        return find_entry_points(GROUP)

    @cached_property
    def _packages(self) -> Table:
        found: list[FlowUnitSpec] = []
        for entry in (_BUILT_IN, *self._installed):
            package = entry.dist.name if entry.dist is not None else entry.value
            try:
                found += specs_in(entry.load())
            except Exception as error:  # noqa: BLE001 - foreign code: reported when a unit is missing
                self.broken[package] = error
        return _by_name(found)

    def _base_unit(self, name: str) -> FlowUnitSpec:
        """Finds an installed unit that a folder's configuration builds on."""
        if name not in self._packages:
            raise UnknownFlowUnitError(
                f"unknown flow unit {name!r}{did_you_mean(name, self._packages)}"
            )
        return _only(name, self._packages, "installed packages")

    def _missing(self) -> list[str]:
        return [
            f"units of the package {package!r} are missing: {type(error).__name__}: {error}"
            for package, error in self.broken.items()
        ]

    def _unknown(self, name: str) -> UnknownFlowUnitError:
        near = did_you_mean(
            name, [known for _, table in self._tables(skips=False) for known in table]
        )
        message = f"unknown flow unit {name!r}"
        if near:
            message += near
        else:
            places = [
                self._describe_searched(folder) for folder in self._dirs if os.path.isdir(folder)
            ]
            places.append("the built-in and installed units")
            message += f" (searched: {', '.join(places)})"
        if Path(name).suffix:  # "net.onnx"
            stem = Path(name).stem
            message += f"; a model file needs a unit file: modelflow model {name} --toml "
            message += f"units/{stem}/{stem}.toml"
        return UnknownFlowUnitError("; ".join([message, *self.absent, *self._missing()]))

    def _describe_searched(self, folder: str) -> str:
        """Returns a folder with the names of its units: ``the folder units (holds a, b)``."""
        held = [
            name
            for name, (unit, *_) in self._folders.items()
            if unit.location is not None and Path(folder) in Path(unit.location.file).parents
        ]
        more = f" and {len(held) - _MOST_NAMED} more" if len(held) > _MOST_NAMED else ""
        names = ", ".join(held[:_MOST_NAMED]) or "no unit"
        return f"the folder {folder} (holds {names}{more})"


def specs_in(unit: Any) -> list[FlowUnitSpec]:
    """Returns the descriptions in a spec, a decorated function, a class, a module, or a list.

    Raises:
        ConfigError: the value holds no description.
    """
    if isinstance(unit, FlowUnitSpec):
        return [unit]
    if isinstance(unit, ModuleType):
        found = getattr(unit, "SPECS", None) or getattr(unit, "SPEC", None) or _list_made(unit)
        if found:
            return specs_in(found)
    elif isinstance(unit, Iterable) and not isinstance(unit, str | bytes):
        return [
            spec
            for item in unit
            for spec in ([item] if isinstance(item, FlowUnitSpec) else specs_in(item))
        ]
    else:
        spec = getattr(unit, "SPEC", None)
        if isinstance(spec, FlowUnitSpec):
            return [spec]
    raise ConfigError(
        f"got {unit!r} as a flow unit; expected a function decorated with @modelflow.flowunit, a "
        "FlowUnit class with a SPEC, or a FlowUnitSpec"
    )


def _import(name: str) -> FlowUnitSpec:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the import may raise any exception
        found = f"{type(error).__name__}: {error}"
        line = find_line(error)
        raise ConfigError(
            f"flow unit {name!r}: cannot import {module_name!r}: {found}"
            f"{f' ({line})' if line and line not in found else ''}"
            f"{_describe_search(module_name, error)}"
        ) from error
    unit = getattr(module, attribute, None)
    if unit is None:
        near = did_you_mean(attribute, vars(module))
        raise ConfigError(f"flow unit {name!r}: {module_name!r} has no {attribute!r}{near}")
    (spec, *_) = specs_in(unit)
    return spec


def _describe_search(module_name: str, error: BaseException) -> str:
    """Returns advice if the named module itself is missing, and not an imported module."""
    if not isinstance(error, ModuleNotFoundError) or error.name != module_name.partition(".")[0]:
        return ""
    here = [path.stem for path in Path().glob("*.py")]
    return (
        "; expected a module that is installed, on PYTHONPATH, in the folder you are in, or "
        f"(by the command line) beside the graph{did_you_mean(module_name, here)}"
    )


def _near_folder(folder: Path) -> str:
    try:
        beside = [path.name for path in folder.parent.iterdir() if os.path.isdir(path)]
    except OSError:  # not there, or not readable
        return ""
    return did_you_mean(folder.name, beside)


def _list_made(module: ModuleType) -> list[FlowUnitSpec]:
    """Returns the units of the functions and classes that a module defines."""
    specs: list[FlowUnitSpec] = []
    for unit in vars(module).values():
        is_class = isinstance(unit, type) and issubclass(unit, FlowUnit)
        if (is_class or inspect.isfunction(unit)) and unit.__module__ == module.__name__:
            spec = getattr(unit, "SPEC", None)
            if isinstance(spec, FlowUnitSpec) and spec not in specs:
                specs.append(spec)
    return specs


def _by_name(units: Iterable[Unit]) -> Table:
    found: Table = {}
    for unit in units:
        for name in (unit.name, *unit.aliases):
            others = found.setdefault(name, [])
            if not others or not any(_is_same(unit, other) for other in others):
                others.append(unit)
    return found


def _is_same(one: Unit, other: Unit) -> bool:
    """Tells whether two units are the same unit, found twice in nested folders."""
    return one == other or (one.location is not None and one.location == other.location)


def _only(name: str, table: Table, where: str) -> FlowUnitSpec:
    units = table[name]
    if len(units) > 1:
        places = " and ".join(str(unit.location or _place(unit)) for unit in units[:2])
        raise ConfigError(
            f"flow unit {name!r} stands twice among {where}: {places}; "
            "rename or leave out one of them"
        )
    (unit,) = units
    if isinstance(unit, UnusableUnit):
        raise unit.error()
    return unit


def _place(unit: Unit) -> str:
    return str(dict(unit.devices)) if isinstance(unit, FlowUnitSpec) else unit.name
