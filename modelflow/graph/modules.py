"""Python files that a graph's units are made of, and what they import: read, never imported."""

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from modelflow.errors import ConfigError, is_users

__all__ = ["ImportedModules", "is_program"]

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
        for name, level in _imports(_parsed(file)):
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
        for part in _parsed(file).body
    )


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        message = f"{file}: is no Python: {error}; mend it, or keep it out of the units' folder"
        raise ConfigError(message) from error


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
