"""The files of a graph, and the Python modules next to the graph file."""

import ast
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelflow.config.flow_config import FlowConfig, NodeConfig
from modelflow.errors import ConfigError, is_users
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node


def look_beside(path: Path) -> None:
    """Adds the folder of a graph file to the end of the module search path."""
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)


def list_imported_modules(
    config: FlowConfig, nodes: Mapping[str, Node] = MappingProxyType({})
) -> Iterator[tuple[NodeConfig, str, Path]]:
    """Yields the nodes whose units are in an imported module of the user.

    Args:
        config: The graph.
        nodes: The nodes of the graph by name, as far as they are known.

    Returns:
        Tuples of the node, the name of its module, and the file of the module.
    """
    for node in config.nodes:
        name, colon, _ = str(node.attributes.get("flowunit") or "").partition(":")
        spec = nodes[node.name].spec if node.name in nodes else None
        for module in (*((name,) if colon else ()), *(spec.modules if spec else ())):
            file = getattr(sys.modules.get(module), "__file__", None)
            if file and is_users(file):
                yield node, module, Path(file)


def check_beside(config: FlowConfig, nodes: Mapping[str, Node] = MappingProxyType({})) -> None:
    """Checks that the modules next to a graph are the modules that were imported for the graph.

    Several graphs in one process may have different modules of the same name.

    Args:
        config: The graph.
        nodes: The nodes of the graph by name, as far as they are known.

    Raises:
        ConfigError: An imported module is another file.
    """
    if config.path is None or config.archive is not None:
        return
    folder = config.path.parent.resolve()
    for node, name, file in list_imported_modules(config, nodes):
        beside = folder / f"{name}.py"
        other = file.resolve()
        if beside.is_file() and other != beside and not _is_same(other, beside):
            raise ConfigError(
                f"{node.location}: node {node.name!r}: the module {name!r} next to the graph is "
                f"not the one imported from {file}. Rename one, pack both "
                "graphs, or serve them in processes of their own"
            )


def _is_same(one: Path, other: Path) -> bool:
    """Tells whether two files have the same content."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:  # a file was removed, or cannot be read
        return False


# Names that every Python file of a graph may import.
_OWN = frozenset({"modelflow", "flowunits", "_flowunit"})


@dataclass
class ImportedModules:
    """The modules of the user that some files import, directly or indirectly.

    Attributes:
        files: File of a module -> the file or node that imports it.
        roots: The folders that contain modules under their full names.
        installed: Top-level names that are not among the user's files: installed packages, or
            missing modules.
    """

    files: dict[Path, str] = field(default_factory=dict)
    roots: set[Path] = field(default_factory=set)
    installed: set[str] = field(default_factory=set)
    _read: set[Path] = field(default_factory=set)

    def add_module(self, name: str, needed_for: str) -> None:
        """Adds a module by its full name, with all its imports."""
        self._find(name, needed_for, None)

    def add_file(self, file: Path) -> None:
        """Adds the imports of a file; modules in its folder are found by their plain names.

        Raises:
            ConfigError: The file is not valid Python.
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
        """Adds the files of ``a.b.c`` in a folder: the packages on the path, and the module."""
        for part in parts:
            for file in (folder / part / "__init__.py", folder / f"{part}.py"):
                if file.is_file():
                    self.files.setdefault(Path(os.path.abspath(file)), importer)
                    self.add_file(file)
                    break
            folder /= part


def is_program(file: Path) -> bool:
    """Tells whether a file is a program, with code under ``__name__ == "__main__"``.

    Raises:
        ConfigError: The file is not valid Python.
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
            f"{file}: is not Python: {error}; repair it, or keep it out of the units' folder"
        ) from error


def _users_folders() -> list[Path]:
    folders = [Path(os.path.abspath(entry or ".")) for entry in sys.path]
    return [folder for folder in folders if folder.is_dir() and is_users(f"{folder}/")]


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yields imported names with their leading dots; for ``from a import b`` both names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module:
                yield module, node.level
            # A name that is imported from a package may be a module of the package.
            yield from (
                (f"{module}.{alias.name}".lstrip("."), node.level)
                for alias in node.names
                if alias.name != "*"
            )


# The maximum number of files in a folder of units, including its subfolders.
MOST_FILES = 10_000
# Folders that contain no units.
_PASSED = {"__pycache__", "node_modules", "site-packages"}


def files_of(graph: Graph) -> set[Path]:
    """Returns the files of a graph, and the folders in which more files may appear.

    The files are: the graph's text, the folders of its units with their contents, the models, and
    files that options name. Modules that were imported by name are excluded.

    Raises:
        ConfigError: A folder of units has too many files to watch.
    """
    return {*_read_written(graph.config), *files_behind(graph)}


def files_behind(graph: Graph) -> set[Path]:
    """Returns the files that a graph's nodes need: units, models, files that options name."""
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
    """Yields a folder and its contents, without hidden files and caches of tools.

    Raises:
        ConfigError: The folder has more than `MOST_FILES` files.
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
                f"{folder}: has more than {MOST_FILES} files; expected a folder with units only "
                "([driver] dir)"
            )
        yield from (Path(place, name) for name in names if name[0] != ".")


def is_passed(folder: str) -> bool:
    """Tells whether a folder contains no units, by its name."""
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
