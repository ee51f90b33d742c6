"""The files that a graph is made of, and the Python modules beside it."""

import ast
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelflow.config.flow_config import FlowConfig, NodeConfig
from modelflow.errors import ConfigError, is_users
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node


def look_beside(path: Path) -> None:
    """Has modules be found in the folder of a graph file, behind all other places."""
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)


def list_imported_modules(config: FlowConfig) -> Iterator[tuple[NodeConfig, str, Path]]:
    """Gives the nodes whose units are named by a module of a user's that was imported.

    Returns:
        Each with the name of the module, and the file that it was imported from.
    """
    for node in config.nodes:
        name, colon, _ = str(node.attributes.get("flowunit") or "").partition(":")
        file = getattr(sys.modules.get(name), "__file__", None)
        if colon and file and is_users(file):
            yield node, name, Path(file)


def check_beside(config: FlowConfig) -> None:
    """Looks whether modules that lie beside a graph are those that were imported for it.

    Where several graphs run in one process, one may have a module of the name of another's.

    Raises:
        ConfigError: one is not.
    """
    if config.path is None or config.archive is not None:
        return
    folder = config.path.parent.resolve()
    for node, name, file in list_imported_modules(config):
        beside = folder / f"{name}.py"
        other = file.resolve()
        if beside.is_file() and other != beside and not _is_same(other, beside):
            raise ConfigError(
                f"{node.location}: node {node.name!r}: the module {name!r} beside the graph is "
                f"another than the one that was imported from {file}; rename one, pack the two "
                "graphs, or serve them in processes of their own"
            )


def _is_same(one: Path, other: Path) -> bool:
    """Tells whether two files hold the same."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:  # one has gone, or may not be read
        return False


# Names that every Python file of a graph may import.
_OWN = frozenset({"modelflow", "flowunits", "_flowunit"})


@dataclass
class ImportedModules:
    """Follows imports from file to file through the user's own code.

    Attributes:
        files: The files of modules that were found, each with what imports it.
        roots: The folders in which modules were found by their full name.
        installed: Top-level names that are not among the user's files: of installed packages, or of
            nothing.
    """

    files: dict[Path, str] = field(default_factory=dict)
    roots: set[Path] = field(default_factory=set)
    installed: set[str] = field(default_factory=set)
    _read: set[Path] = field(default_factory=set)

    def add_module(self, name: str, needed_for: str) -> None:
        """Adds a module by its full name, with all that it imports."""
        self._find(name, needed_for, None)

    def add_file(self, file: Path) -> None:
        """Adds what a file imports; beside it, modules are found by their plain names.

        Raises:
            ConfigError: it is no Python.
        """
        file = Path(os.path.abspath(file))
        if file in self._read:
            return
        self._read.add(file)
        for name, level in _imports(_parse(file)):
            if level:
                self._find_relative(name, level, file)
            else:
                self._find(name, str(file), file.parent)

    def _find(self, name: str, importer: str, beside: Path | None) -> None:
        top = name.partition(".")[0]
        if top in _OWN or top in sys.stdlib_module_names:
            return
        for root in ([] if beside is None else [beside]) + _users_folders():
            if (root / f"{top}.py").is_file() or (root / top / "__init__.py").is_file():
                if root != beside:
                    self.roots.add(root)
                self._add(root, name.split("."), importer)
                return
        self.installed.add(top)

    def _find_relative(self, name: str, level: int, file: Path) -> None:
        folder = file.parent
        for _ in range(level - 1):
            folder = folder.parent
        self._add(folder, name.split(".") if name else [], str(file))

    def _add(self, folder: Path, parts: list[str], importer: str) -> None:
        """Adds the files of ``a.b.c`` in a folder: packages on the way, and the module."""
        for part in parts:
            for file in (folder / part / "__init__.py", folder / f"{part}.py"):
                if file.is_file():
                    self.files.setdefault(Path(os.path.abspath(file)), importer)
                    self.add_file(file)
                    break
            folder /= part


def is_program(file: Path) -> bool:
    """Tells whether a file is one that is run: some of it stands under ``__name__ == "__main__"``.

    Raises:
        ConfigError: it is no Python.
    """
    return any(
        isinstance(part, ast.If) and "__name__ == '__main__'" in ast.unparse(part.test)
        for part in _parse(file).body
    )


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise ConfigError(
            f"{file}: is no Python: {error}; mend it, or keep it out of the units' folder"
        ) from error


def _users_folders() -> list[Path]:
    folders = [Path(os.path.abspath(entry or ".")) for entry in sys.path]
    return [folder for folder in folders if folder.is_dir() and is_users(f"{folder}/")]


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Gives names that are imported, with the dots before them; of ``from a import b`` both."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module:
                yield module, node.level
            # What is imported from a package may be a module of it.
            yield from (
                (f"{module}.{alias.name}".lstrip("."), node.level)
                for alias in node.names
                if alias.name != "*"
            )


# In a folder of units, with those inside it.
MOST_FILES = 10_000
# Folders that hold no units of anybody's.
_PASSED = {"__pycache__", "node_modules", "site-packages"}


def files_of(graph: Graph) -> set[Path]:
    """Returns the files that a graph is made of, and the folders in which there may be more.

    Its text; the folders of its units, with what lies in them; the models; files that options name.
    Modules that were imported by name are not among them.

    Raises:
        ConfigError: a folder of units holds too many files to watch.
    """
    return {*_read_written(graph.config), *files_behind(graph)}


def files_behind(graph: Graph) -> set[Path]:
    """Returns the files that the nodes of a graph need: units, models, files that options name."""
    return {path for node in graph.nodes.values() for path in _behind(node, graph.config)}


def _read_written(config: FlowConfig) -> Iterator[Path]:
    if config.path is None:
        return
    yield config.path
    if config.archive is not None:
        yield config.archive
    folder = config.path.parent
    if text := config.graph.get("graphconffilepath"):
        yield folder / text
    for place in config.driver.get("dir") or ():
        yield from files_in(folder / place)


def files_in(folder: Path) -> Iterator[Path]:
    """Gives a folder and all in it, but what is hidden, and what tools put there.

    Raises:
        ConfigError: there are more than `MOST_FILES`.
    """
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_passed(name)]
        if "pyvenv.cfg" in names:
            folders[:] = []
            continue
        yield Path(place)
        count += len(names)
        if count > MOST_FILES:
            raise ConfigError(
                f"{folder}: holds more than {MOST_FILES} files; expected a folder of units alone "
                "([driver] dir)"
            )
        yield from (Path(place, name) for name in names if name[0] != ".")


def is_passed(folder: str) -> bool:
    """Tells whether nothing of a folder is anybody's unit, by its name."""
    return folder in _PASSED or folder.startswith(".")


def _behind(node: Node, config: FlowConfig) -> Iterator[Path]:
    if node.spec is None:
        return
    for path in node.spec.required_files:
        yield from files_in(path) if path.is_dir() else (path,)
    if node.spec.location is not None and node.spec.location.file:
        yield Path(node.spec.location.file)
    folder = Path() if config.path is None else config.path.parent
    for value in _values(node.config):
        if isinstance(value, str) and 0 < len(value) < 1000 and (folder / value).is_file():
            yield folder / value


def _values(options: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(options):
        yield from (getattr(options, field.name) for field in dataclasses.fields(options))
    elif isinstance(options, Mapping):
        yield from options.values()
