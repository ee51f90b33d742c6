"""Imports the modules in unit folders as ModelBox does: as if all were on one ``sys.path``.

A module in a unit's folder (``helper.py``, a package, the unit's own file) has its plain name in
``sys.modules``. Units of several folders that ``import helper`` get one module with one state. The
call ``importlib.import_module("helper")`` and pickles of its classes find the module as well, in
other processes, too.

- **Clashes.** The module has a private name (``modelflow_unit_folder_...helper``) if another module
  has the plain name. This is an installed or foreign module (``utils``, ``types``), or a ``helper``
  with other contents in another unit's folder. The import statements in the folder find the private
  module by its plain name. Calls of ``importlib`` and pickles from elsewhere find the other module.
  The first flow of a program keeps a plain name even after its end. Copies with the same contents,
  in folders of one registry, are one module.
- **Import statements.** The modules of a folder have their own ``__import__``. It searches the
  folder first, then the installed modules, then the registry's other unit folders. The list
  ``sys.path`` does not change. A folder without ``__init__.py`` is a module only if no other module
  has its name.
- **Edited files.** A `UnitFolders` belongs to one registry, and therefore to one reading of a
  graph. Before its first import it compares the folders with the modules imported from them
  earlier. If a file has changed, all modules of these folders are imported again, and the new
  modules take the plain names. Running flows keep the old modules, even for import statements
  inside functions.
- **Processes.** A `UnitFolders` is pickled with its chosen names. A class therefore has the same
  name in the flow and in a unit's process.
"""

import builtins
import functools
import importlib
import importlib.util
import itertools
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, all_suffixes
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

_PREFIX = "modelflow_unit_folder_"
_MODULES_GROUP = "modelflow.unit_modules"
_lock = threading.RLock()
_numbers = itertools.count(1)


class _File(NamedTuple):
    """A module in a folder: its file (for a package its folder), and a digest of its contents."""

    path: Path
    digest: str
    is_mere_folder: bool


class _Folder:
    """One load of the modules of a folder."""

    def __init__(self, path: Path, package: str, folders: "UnitFolders") -> None:
        self.path = path
        self.package = package
        self.folders = folders
        self.files = dict(_files(path))
        self.names: dict[str, str] = {}
        # Modules that `release` has removed from `sys.modules`.
        self.released: dict[str, ModuleType] = {}

    def module_name(self, top: str) -> str | None:
        """Returns the name in ``sys.modules`` of the module that ``import top`` means here.

        Returns:
            None if the module does not belong to a unit's folder.
        """
        if top in self.names:
            return self.names[top]
        if top == "modelflow" or (top in sys.modules and top not in _plain):
            return None
        if top not in _plain and _find_elsewhere(top) is not None:
            return None
        others = (folder.names.get(top) for folder in self.folders.all() if folder is not self)
        return next(filter(None, others), None)


class _Plain(NamedTuple):
    """The owner of a plain name: a module of a unit's folder."""

    folder: _Folder
    file: _File


# Both are guarded by the lock. The loads that a new registry uses, by path and by package:
_loads: dict[Path, _Folder] = {}
_packages: dict[str, _Folder] = {}
_plain: dict[str, _Plain] = {}


class UnitFolders:
    """The folders of the Python units that one registry has read."""

    def __init__(self) -> None:
        """Starts without folders."""
        self._paths: dict[Path, None] = {}
        self._loads: dict[Path, _Folder] = {}

    def add(self, path: Path) -> None:
        """Adds the folder of a Python unit, without importing anything."""
        self._paths[path.resolve()] = None

    def import_module(self, path: Path, module: str) -> ModuleType:
        """Imports a module of a folder, if necessary, and returns the module.

        Args:
            path: One of the folders.
            module: Its name there, ``double`` or ``code.double``.

        Raises:
            Exception: the import of the module raises an exception.
        """
        folder = self._load(path.resolve())
        top, dot, rest = module.partition(".")
        name = folder.names.get(top, f"{folder.package}.{top}") + dot + rest
        return folder.released.get(name) or importlib.import_module(name)

    def all(self) -> Iterator[_Folder]:
        """Yields the folders in the order in which their units were first imported."""
        for path in [*self._loads, *self._paths]:
            yield self._load(path)

    def _load(self, path: Path) -> _Folder:
        with _lock:
            if not self._loads:  # if one file has changed, the modules of all folders are removed
                known = [_loads[path] for path in self._paths if path in _loads]
                if any(folder.files != dict(_files(folder.path)) for folder in known):
                    release({folder.package for folder in known})
            if path not in self._loads:
                self._loads[path] = _loads.get(path) or self._new(path)
            return self._loads[path]

    def _new(self, path: Path) -> _Folder:
        import hashlib  # here, because it loads OpenSSL, and few graphs have unit folders

        name = f"{_PREFIX}{hashlib.sha256(str(path).encode()).hexdigest()[:16]}_{next(_numbers)}"
        folder = _Folder(path, name, self)
        for top, file in folder.files.items():
            if (chosen := self._choose(folder, top, file)) is not None:
                folder.names[top] = chosen
        _enter(folder)
        return folder

    def _choose(self, folder: _Folder, top: str, file: _File) -> str | None:
        """Returns the name for a folder's module, or None if another module has the name."""
        private = f"{folder.package}.{top}"
        if top in _plain:
            other = _plain[top]
            is_copy = other.file.digest == file.digest and other.folder.path in self._paths
            return top if other.file.path == file.path or is_copy else private
        if top in sys.modules:
            found: str | None = getattr(sys.modules[top], "__file__", None)
        else:
            found = _find_elsewhere(top)
        if found is None and top not in sys.modules:
            return top
        if found is not None and Path(found).resolve() in (file.path, file.path / "__init__.py"):
            return top
        return None if file.is_mere_folder else private

    def __getstate__(self) -> dict[str, Any]:
        """Returns the folders with all chosen names."""
        chosen = {folder.path: (folder.package, folder.names) for folder in self.all()}
        return {"paths": list(self._paths), "chosen": chosen}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restores the names that another process has chosen."""
        self._paths, self._loads = dict.fromkeys(state["paths"]), {}
        for path, (package, names) in state["chosen"].items():
            with _lock:
                if package in _packages:  # unpickled in the same process
                    self._loads[path] = _packages[package]
                    continue
                self._loads[path] = folder = _Folder(path, package, self)
                folder.names = names
                _enter(folder)


def is_of_folder(module: str) -> bool:
    """Tells whether the module of this name belongs to a unit's folder."""
    top = module.partition(".")[0]
    return top in _packages or top in _plain


def release(names: Collection[str]) -> None:
    """Removes modules of unit folders by their names; running flows keep their modules.

    A later registry imports a module of such a folder again.
    """
    with _lock:
        for folder in list(_loads.values()):
            own = _modules_of(folder)
            if own.isdisjoint(names):
                continue
            folder.released = {name: sys.modules[name] for name in own if name in sys.modules}
            del _loads[folder.path]
            for name in own - {folder.package}:  # old code may still import private modules
                sys.modules.pop(name, None)
                _plain.pop(name, None)


def _modules_of(folder: _Folder) -> set[str]:
    """Returns the names of the modules that a folder's load adds, imported or not."""
    tops = {top for top, plain in _plain.items() if plain.folder is folder} | {folder.package}
    return tops | {name for name in list(sys.modules) if name.partition(".")[0] in tops}


def _enter(folder: _Folder) -> None:
    """Registers a folder, to make its modules importable."""
    if not any(isinstance(finder, _FolderFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FolderFinder())
    package = ModuleType(folder.package, f"The modules in {folder.path}.")
    package.__path__ = [str(folder.path)]
    sys.modules[folder.package] = package
    _loads[folder.path] = _packages[folder.package] = folder
    for top, name in folder.names.items():
        if name == top and top not in sys.modules and top in folder.files:
            _plain.setdefault(top, _Plain(folder, folder.files[top]))


def _files(path: Path) -> Iterator[tuple[str, _File]]:
    """Yields the modules in a folder, by name."""
    mere = {}
    for place in sorted(path.iterdir()):
        if place.is_file():
            suffix = next((end for end in all_suffixes() if place.name.endswith(end)), "")
            top = place.name.removesuffix(suffix)
            if suffix and top.isidentifier():
                yield top, _File(place.resolve(), _digest([place]), False)
        elif place.name.isidentifier() and place.name not in ("__pycache__", "modelflow"):
            if (place / "__init__.py").is_file():
                yield place.name, _File(place.resolve(), _digest(place.rglob("*.py")), False)
            elif files := list(place.rglob("*.py")):
                mere[place.name] = _File(place.resolve(), _digest(files), True)
    yield from mere.items()


def _digest(files: Iterator[Path] | Sequence[Path]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _find_elsewhere(top: str) -> str | None:
    """Returns the file of an installed module by its name, without import, or None."""
    for finder in sys.meta_path:
        spec = None if isinstance(finder, _FolderFinder) else finder.find_spec(top, None)
        if spec is not None and spec.loader is not None:
            return spec.origin or top
    return None


@functools.cache
def unit_modules() -> Mapping[str, str]:
    """Returns the modules that replace modules of other frameworks, from the entry points."""
    return {point.name: point.value for point in entry_points(group=_MODULES_GROUP)}


class _FolderFinder(MetaPathFinder):
    """Finds only the modules of unit folders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        plain = _plain.get(top)
        folder = _packages.get(top) if plain is None else plain.folder
        if folder is None:
            return None
        spec = PathFinder.find_spec(fullname, path or [str(folder.path)], target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FolderLoader(spec.loader.name, spec.loader.path, folder)
        return spec


class _FolderLoader(SourceFileLoader):
    """Loads a module whose import statements search its folder first."""

    def __init__(self, name: str, path: str, folder: _Folder) -> None:
        super().__init__(name, path)
        self._folder = folder

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Compiles the file. A cached file has a time in seconds only, and may be outdated."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        # An import statement takes __import__ from the builtins of its module.
        own = vars(builtins) | {"__import__": _import_in(self._folder)}
        module.__dict__["__builtins__"] = own
        super().exec_module(module)


def _import_in(folder: _Folder) -> Callable[..., Any]:
    """Returns the ``__import__`` of a folder's modules."""

    def import_from_folder(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the name of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        parent = (globals or {}).get("__package__")
        if level == 1 and parent in ("", folder.package):  # "." is the folder
            if name.partition(".")[0] in folder.names:
                return import_from_folder(name, globals, locals, fromlist)
            if not name and fromlist and folder.names.keys() >= {*fromlist}:
                return SimpleNamespace(**{top: import_from_folder(top) for top in fromlist})
        top, dot, rest = name.partition(".")
        found = None if level else folder.module_name(top)
        if found is None:
            if not level and name in unit_modules():
                return importlib.import_module(unit_modules()[name])
            if not level and top in _plain and _find_elsewhere(top) is None:
                message = f"No module named {top!r}"  # the module of another registry's folder
                raise ModuleNotFoundError(message, name=top)
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        full = found + dot + rest
        if full in folder.released:
            return folder.released[full if fromlist else found]
        module = builtins.__import__(full, globals, locals, fromlist or (), 0)
        return module if fromlist else sys.modules[found]

    return import_from_folder
