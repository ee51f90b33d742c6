"""A unit's class in the Python file of its folder, and what that file says before it runs."""

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

# Python 3.11 counts how deep a syntax tree is in one place for all threads, and refuses the tree
# ("AST constructor recursion depth mismatch") where two have made one at once.
_parsing = threading.Lock()
_ATTEMPTS = 100


@dataclass(frozen=True, eq=False)
class FolderClass:
    """Makes instances of a class in the Python file of a unit's folder.

    A class that is no `FlowUnit` may be one of another framework's: the modules that stand for one
    (see `unit_defaults`) make a unit of it.
    """

    folders: UnitFolders
    """The folders of the registry, whose modules may import one another's."""
    folder: Path
    """The one that the unit is in."""
    module: str
    """The file's name, without its suffix."""
    name: str
    """The class."""
    base: Mapping[str, Any]
    """The section ``[base]`` of the unit's file."""
    is_source: bool
    """It has no inputs."""

    def load(self) -> ModuleType:
        """Returns the module, imported once, and anew for a registry that finds it changed.

        Raises:
            Exception: whatever the file raises when it is imported.
        """
        return self.folders.import_module(self.folder, self.module)

    def __call__(self) -> FlowUnit:
        """Makes an instance.

        Raises:
            ConfigError: there is no such class, or it is no `FlowUnit`.
            Exception: whatever the file raises when it is imported.
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
    """Returns fields of `FlowUnitSpec` that hold for units that import another framework's name.

    Such names are the entry points ``modelflow.unit_modules``: the module that a folder's file gets
    when it imports that name. Its ``UNIT_DEFAULTS`` say how its units expect to be run (``kinds``:
    what stands for those without fields of their own), and its
    ``as_flow_unit(cls, base, *, is_source)`` makes a `FlowUnit` of a class of its own, or None.

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
                except SystemError:  # another library's thread was parsing
                    continue
            return ast.parse(source, str(file))
    except ValueError as error:  # Python 3.11's way to refuse a zero byte
        raise SyntaxError(str(error)) from error


def names_in(file: Path) -> set[str]:
    """Returns what a Python file defines, read without running it; ``*``: that cannot be told.

    Raises:
        SyntaxError: it is not Python.
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
