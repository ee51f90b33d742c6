"""Where flow units are found: name -> `FlowUnitSpec`."""

import importlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from modelflow.errors import ConfigError, UnknownFlowUnitError, did_you_mean
from modelflow.flowunit.folder import read_folder
from modelflow.flowunit.function import declared_specs
from modelflow.flowunit.spec import FlowUnitSpec

__all__ = ["Registry", "specs_in"]

GROUP = "modelflow.flowunits"


class Registry:
    """The flow units that a graph can use.

    In the order of precedence: those given, those in folders, those declared by the decorator in
    modules that are already imported, and those of installed packages (the built-in ones among
    them). Within one of these a name may stand once.

    An installed package that cannot be imported does not stand in the way of the others: its error
    is raised when a name is looked up that nothing else has, and is in `broken`.
    """

    def __init__(
        self,
        dirs: Iterable[str | Path] = (),
        *,
        skip_default: bool = False,
        units: Iterable[Any] = (),
    ) -> None:
        """Reads the folders; installed packages are loaded when first needed.

        Args:
            dirs: Folders that are searched for unit files (``NAME.toml``), with those inside them.
            skip_default: Leave out the installed packages.
            units: Specs, decorated functions, `FlowUnit` classes with a ``SPEC``, or modules.

        Raises:
            ConfigError: a folder is not there, a unit file is wrong, a name stands twice.
        """
        self.broken: dict[str, Exception] = {}
        self._skip_default = skip_default
        self._installed: dict[str, FlowUnitSpec] | None = None
        given = [spec for unit in units for spec in specs_in(unit)]
        self._given = _by_name(given, "the units given")
        found = [spec for folder in dirs for spec in read_folder(Path(folder), self._base_unit)]
        self._folders = _by_name(found, "the unit folders")

    def find(self, name: str) -> FlowUnitSpec:
        """Returns the unit ``name``: a name, an alias, or ``package.module:function``.

        Raises:
            UnknownFlowUnitError: there is none; the message names the nearest.
            ConfigError: ``package.module:function`` cannot be imported, or is no flow unit.
        """
        if ":" in name:
            return _imported(name)
        for table in self._tables():
            if name in table:
                return table[name]
        raise self._unknown(name)

    def specs(self) -> Sequence[FlowUnitSpec]:
        """Returns every unit once, by name."""
        found: dict[str, FlowUnitSpec] = {}
        for table in self._tables():
            for spec in table.values():
                found.setdefault(spec.name, spec)
        return [found[name] for name in sorted(found)]

    def _tables(self) -> Iterable[dict[str, FlowUnitSpec]]:
        yield self._given
        yield self._folders
        yield _by_name(declared_specs(), "decorated functions")
        if not self._skip_default:
            if self._installed is None:
                self._installed = self._load_installed()
            yield self._installed

    def _base_unit(self, name: str) -> FlowUnitSpec:
        """Finds an installed unit that a folder's configuration builds on."""
        if self._installed is None:
            self._installed = self._load_installed()
        if name not in self._installed:
            raise self._unknown(name)
        return self._installed[name]

    def _load_installed(self) -> dict[str, FlowUnitSpec]:
        found: list[FlowUnitSpec] = []
        for entry in importlib.metadata.entry_points(group=GROUP):
            package = entry.dist.name if entry.dist is not None else entry.value
            try:
                found += specs_in(entry.load())
            except (ImportError, AttributeError, ConfigError) as error:
                self.broken[package] = error
        return _by_name(found, "installed packages")

    def _unknown(self, name: str) -> UnknownFlowUnitError:
        known = [known for table in self._tables() for known in table]
        message = f"unknown flow unit {name!r}{did_you_mean(name, known)}"
        if not known:
            message += " (no unit is known: skip-default is true, and no folder has one)"
        for package, error in self.broken.items():
            message += f"; units of the package {package!r} are missing: {error}"
        return UnknownFlowUnitError(message)


def specs_in(unit: Any) -> list[FlowUnitSpec]:
    """Returns the descriptions in a spec, a decorated function, a class, a module, or a list.

    Raises:
        ConfigError: there is none in it.
    """
    if isinstance(unit, FlowUnitSpec):
        return [unit]
    if isinstance(unit, ModuleType):
        found = getattr(unit, "SPECS", None) or getattr(unit, "SPEC", None)
        if found is not None:
            return specs_in(found)
    elif isinstance(unit, Iterable) and not isinstance(unit, str | bytes):
        return [spec for item in unit for spec in specs_in(item)]
    else:
        spec = getattr(unit, "SPEC", None)
        if isinstance(spec, FlowUnitSpec):
            return [spec]
    message = (
        f"got {unit!r} as a flow unit; expected a function decorated with @modelflow.flowunit, a "
        "FlowUnit class with a SPEC, or a FlowUnitSpec"
    )
    raise ConfigError(message)


def _imported(name: str) -> FlowUnitSpec:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        message = f"flow unit {name!r}: cannot import {module_name!r}: {error}"
        raise ConfigError(message) from error
    unit = getattr(module, attribute, None)
    if unit is None:
        near = did_you_mean(attribute, vars(module))
        message = f"flow unit {name!r}: {module_name!r} has no {attribute!r}{near}"
        raise ConfigError(message)
    (spec, *_) = specs_in(unit)
    return spec


def _by_name(specs: Iterable[FlowUnitSpec], where: str) -> dict[str, FlowUnitSpec]:
    found: dict[str, FlowUnitSpec] = {}
    for spec in specs:
        for name in (spec.name, *spec.aliases):
            other = found.setdefault(name, spec)
            if other is not spec and other != spec:
                message = (
                    f"flow unit {name!r} stands twice among {where}: "
                    f"{other.location or other.devices} and {spec.location or spec.devices}"
                )
                raise ConfigError(message)
    return found
