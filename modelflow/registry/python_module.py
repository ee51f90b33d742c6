"""Loading a unit's class from the Python file in its folder."""

import ast
import builtins
import functools
import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from modelflow.errors import ConfigError, did_you_mean
from modelflow.unit.unit import FlowUnit

__all__ = ["is_of_folder", "load_class", "names_in", "unit_defaults"]

_PREFIX = "modelflow_unit_folder_"
_MODULES_GROUP = "modelflow.unit_modules"
_lock = threading.Lock()
# Python 3.11 counts how deep a syntax tree is in one place for all threads, and refuses the tree
# ("AST constructor recursion depth mismatch") where two have made one at once.
_parsing = threading.Lock()
_ATTEMPTS = 100


def load_class(
    folder: Path, module: str, name: str, base: Mapping[str, Any], is_source: bool
) -> FlowUnit:
    """Makes an instance of the class ``name`` in ``folder/module.py``, imported once a process.

    The folder is a package of its own, whose name comes from its path. A module beside the unit's
    is imported by its plain name (``import blocks``), at any time, by the folder's modules alone:
    ``sys.path`` stays as it is, and modules of the same name in two folders do not meet.

    A class that is no `FlowUnit` may be one of another framework's: the modules that stand for one
    (see `unit_defaults`) make a unit of it.

    Args:
        folder: The folder.
        module: The file's name, without its suffix.
        name: The class.
        base: The section ``[base]`` of the unit's file.
        is_source: It has no inputs.

    Raises:
        ConfigError: there is no such class, or it is no `FlowUnit`.
        Exception: whatever the file raises when it is imported.
    """
    loaded = importlib.import_module(f"{_package(folder.resolve())}.{module}")
    found = getattr(loaded, name, None)
    if found is None:
        classes = [key for key, value in vars(loaded).items() if isinstance(value, type)]
        message = f"{loaded.__file__}: there is no class {name!r}{did_you_mean(name, classes)}"
        raise ConfigError(message)
    if isinstance(found, type) and not issubclass(found, FlowUnit):
        for framework in set(_unit_modules().values()) & sys.modules.keys():
            adapted: FlowUnit | None = sys.modules[framework].as_flow_unit(
                found, base, is_source=is_source
            )
            if adapted is not None:
                return adapted
    if not (isinstance(found, type) and issubclass(found, FlowUnit)):
        message = (
            f"{loaded.__file__}: {name!r} is no flow unit; expected a subclass of "
            "modelflow.FlowUnit"
        )
        raise ConfigError(message)
    return found()


def unit_defaults(file: Path) -> dict[str, Any]:
    """Returns fields of `FlowUnitSpec` that hold for units that import another framework's name.

    Such names are the entry points ``modelflow.unit_modules``: the module that a folder's file gets
    when it imports that name. Its ``UNIT_DEFAULTS`` say how its units expect to be run, and its
    ``as_flow_unit(cls, base, *, is_source)`` makes a `FlowUnit` of a class of its own, or None.

    Raises:
        SyntaxError: the file is not Python.
    """
    found: dict[str, Any] = {}
    for name in _imported(file) & _unit_modules().keys():
        found |= getattr(importlib.import_module(_unit_modules()[name]), "UNIT_DEFAULTS", {})
    return found


def _imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return names


@functools.cache
def _unit_modules() -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=_MODULES_GROUP)}


def _parsed(file: Path) -> ast.Module:
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
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return {"*"} if "__getattr__" in names else names


def is_of_folder(module: str) -> bool:
    """Tells whether a module, by its name, is one of a unit's folder."""
    return module.startswith(_PREFIX)


def _package(folder: Path) -> str:
    """Returns the name of the folder's package, which is there afterwards."""
    name = _PREFIX + hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    with _lock:
        if not any(isinstance(finder, _FolderFinder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _FolderFinder())
        if name not in sys.modules:
            package = ModuleType(name, f"The modules in {folder}.")
            package.__path__ = [str(folder)]
            sys.modules[name] = package
    return name


class _FolderFinder(MetaPathFinder):
    """Finds the modules in the packages of folders, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FolderLoader(spec.loader.name, spec.loader.path)
        return spec


class _FolderLoader(SourceFileLoader):
    """Loads a module whose import statements look into its folder first."""

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]
        # The import statement takes __import__ from the builtins of the module that it stands in.
        own = vars(builtins) | {"__import__": _import_in(package)}
        module.__dict__["__builtins__"] = own
        super().exec_module(module)


def _import_in(package: str) -> Callable[..., Any]:
    """Returns the ``__import__`` of a folder's modules."""

    def import_from_folder(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the name of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if not level and name in _unit_modules() and not _is_beside(package, top):
            return importlib.import_module(_unit_modules()[name])
        if level or not _is_beside(package, top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{package}.{top}"]

    return import_from_folder


def _is_beside(package: str, top: str) -> bool:
    """Tells whether ``import top`` in a module of the folder means one of its own."""
    if f"{package}.{top}" in sys.modules:
        return True
    spec = PathFinder.find_spec(f"{package}.{top}", sys.modules[package].__path__)
    if spec is None or top == "modelflow":
        return False
    # A mere folder (no __init__.py) is a module only where nothing else bears its name.
    return spec.loader is not None or importlib.util.find_spec(top) is None
