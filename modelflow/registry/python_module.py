"""Reads the class and the definitions in a unit's Python file."""

import ast
import importlib
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from modelflow.errors import ConfigError, did_you_mean
from modelflow.registry.folder_modules import UnitFolders, unit_modules
from modelflow.unit.unit import FlowUnit

# Python 3.11 counts the depth of a syntax tree in one place for all threads. If two threads build
# trees at once, it refuses a tree ("AST constructor recursion depth mismatch").
_parsing = threading.Lock()
_ATTEMPTS = 100


@dataclass(frozen=True, eq=False)
class FolderClass:
    """Makes instances of a class in the Python file of a unit's folder.

    A class that is no `FlowUnit` may belong to another framework. The module that replaces this
    framework (see `unit_defaults`) makes a unit of it.
    """

    folders: UnitFolders
    """The folders of the registry, whose modules may import each other."""
    folder: Path
    """The folder of the unit."""
    module: str
    """The file's name, without its suffix."""
    name: str
    """The name of the class."""
    base: Mapping[str, Any]
    """The section ``[base]`` of the unit's file."""
    is_source: bool
    """Whether the unit has no inputs."""

    def load(self) -> ModuleType:
        """Returns the module, imported once, and again for a registry that finds a changed file.

        Raises:
            Exception: the import of the file raises an exception.
        """
        return self.folders.import_module(self.folder, self.module)

    def __call__(self) -> FlowUnit:
        """Makes an instance.

        Raises:
            ConfigError: the file has no such class, or the class is no `FlowUnit`.
            Exception: the import of the file raises an exception.
        """
        loaded = self.load()
        found = getattr(loaded, self.name, None)
        if found is None:
            classes = [key for key, value in vars(loaded).items() if isinstance(value, type)]
            near = did_you_mean(self.name, classes)
            raise ConfigError(f"{loaded.__file__}: there is no class {self.name!r}{near}")
        if isinstance(found, type) and not issubclass(found, FlowUnit):
            for framework in set(unit_modules().values()) & sys.modules.keys():
                adapted: FlowUnit | None = sys.modules[framework].as_flow_unit(
                    found, self.base, is_source=self.is_source
                )
                if adapted is not None:
                    return adapted
        if not (isinstance(found, type) and issubclass(found, FlowUnit)):
            raise ConfigError(
                f"{loaded.__file__}: {self.name!r} is no flow unit; expected a subclass of "
                "modelflow.FlowUnit"
            )
        return found()


def unit_defaults(file: Path) -> dict[str, Any]:
    """Returns the `FlowUnitSpec` fields of units that import another framework's name.

    Such names are the entry points ``modelflow.unit_modules``. The entry point names the module
    that replaces the imported module in a folder's file. Its ``UNIT_DEFAULTS`` are the fields of
    its units, in which ``kinds`` replace kinds without fields of their own. Its ``as_flow_unit(cls,
    base, *, is_source)`` makes a `FlowUnit` of its own class, or returns None.

    Raises:
        SyntaxError: the file is not Python.
    """
    found: dict[str, Any] = {}
    for name in _import(file) & unit_modules().keys():
        found |= getattr(importlib.import_module(unit_modules()[name]), "UNIT_DEFAULTS", {})
    return found


def _import(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(_parse(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return names


def _parse(file: Path) -> ast.Module:
    source = file.read_bytes()
    try:
        with _parsing:
            for _ in range(_ATTEMPTS):
                try:
                    return ast.parse(source, str(file))
                except SystemError:  # a thread of another library was parsing
                    continue
            return ast.parse(source, str(file))
    except ValueError as error:  # raised by Python 3.11 for a zero byte
        raise SyntaxError(str(error)) from error


def names_in(file: Path) -> set[str]:
    """Returns the names that a Python file defines, without running the file.

    The name ``*`` means that the file may define any name.

    Raises:
        SyntaxError: the file is not Python.
    """
    names: set[str] = set()
    for node in ast.walk(_parse(file)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return {"*"} if "__getattr__" in names else names
