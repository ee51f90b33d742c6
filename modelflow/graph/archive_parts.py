"""The parts of a graph for an archive: files, their names, overrides as the archive stores them."""

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelflow.config.document import read_text, read_toml
from modelflow.config.flow_config import NodeConfig
from modelflow.config.override import CallerText, flatten
from modelflow.config.read import read_config
from modelflow.engine.lookup import weight_files
from modelflow.errors import ConfigError
from modelflow.graph.files import ImportedModules, files_in, is_passed, is_program
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node
from modelflow.unit.option import Option


@dataclass(frozen=True)
class ArchiveParts:
    """The files and names of a graph.

    Attributes:
        root: The folder that contains all files.
        graph: The graph file's path relative to the root.
        files: Path relative to the root -> the file.
        modules: The folders with modules of units, relative to the root.
        extras: The extras of modelflow that the units need.
        imports: Top-level names that the Python files import, and that are not among the files.
        notes: Notes for the user about links that are left out, and links that are followed.
    """

    root: Path
    graph: str
    files: Mapping[str, Path]
    modules: tuple[str, ...]
    extras: tuple[str, ...]
    imports: frozenset[str]
    notes: tuple[str, ...]


def parts_of(
    graph: Graph, includes: tuple[str, ...] = (), target: Path | None = None
) -> ArchiveParts:
    """Returns the files and names of a graph.

    The files are: its text, the folders of its units, its models, and files that options name.
    Files that sinks write are excluded. Modules of the units are included, and the user's own
    modules that they import.

    Args:
        graph: The checked graph, from a file.
        includes: Patterns of more files, relative to the graph's folder.
        target: The archive, which is excluded.

    Raises:
        ConfigError: A path is absolute, a pattern matches too many files or none, or no folder
            contains all files.
    """
    path = graph.config.path
    if path is None or graph.config.archive is not None:
        what = "is an archive already" if graph.config.archive else "has no file"
        raise ConfigError(f"{graph.name}: {what}; expected a graph file to pack")
    found = dict(_read_written(graph, path))
    for node in graph.nodes.values():
        found.update(_behind(node, graph, path.parent))
    for pattern in includes:
        found.update(_list_included(pattern, path.parent))
    there = {
        file: what
        for place, what in found.items()
        for file in (files_in(place) if place.is_dir() else (place,))
    }
    own = None if target is None else _absolute(target)
    files = {file: what for file, what in there.items() if file != own and not file.is_dir()}
    folders = there.keys() - files.keys()
    notes = [*_note_left_out(folders), *_follow(files)]
    modules, programs = _modules(graph, files)
    files.update(modules.files)
    notes += (f"{file}: is a program; its imports are not counted" for file in programs)
    return _name_file(path, files, modules, graph, notes)


def path_option(node: Node, key: str) -> Option | None:
    """Returns the option for a key of a node if the option's value is a path."""
    option = None if node.spec is None else node.spec.options_by_name.get(key)
    return option if option is not None and option.is_path else None


Found = Iterator[tuple[Path, str]]


def _read_written(graph: Graph, path: Path) -> Found:
    config, file = graph.config, str(path)
    yield _absolute(path), file
    if text := config.graph.get("graphconffilepath"):
        yield _relative(str(text), path.parent, f"{file}: [graph] graphconffilepath"), file
    for place in config.driver.get("dir") or ():
        _relative(str(place), path.parent, f"{file}: [driver] dir")


def _behind(node: Node, graph: Graph, folder: Path) -> Found:
    spec = node.spec
    if spec is None:
        return
    what = f"{node.location}: node {node.name!r}"
    for needed in spec.required_files:
        yield _absolute(needed), f"{what}: unit {spec.name!r}"
        for data in weight_files(needed):
            yield _absolute(data), f"{what}: unit {spec.name!r}"
    if spec.location is not None and (unit := Path(spec.location.file)).suffix == ".toml":
        _check_unit(unit)
        yield _absolute(unit.parent), f"{what}: unit {spec.name!r}"
    config = next(config for config in graph.config.nodes if config.name == node.name)
    yield from _options(node, config, folder, what)


def _check_unit(unit: Path) -> None:
    """Raises a `ConfigError` for absolute paths in a unit's file."""
    sections = read_toml(read_text(unit), str(unit)).values
    for section in ("base", "config"):
        values = sections.get(section)
        for key, value in (values if isinstance(values, dict) else {}).items():
            if isinstance(value, str) and os.path.isabs(value) and os.path.exists(value):
                _relative(value, unit.parent, f"{unit}: [{section}] {key}")


def _options(node: Node, config: NodeConfig, folder: Path, what: str) -> Found:
    for key, value in config.attributes.items():
        option = path_option(node, key)
        # The output of a sink does not belong to the graph.
        is_written = option is not None and node.spec is not None and node.spec.is_sink
        for text in value if isinstance(value, list | tuple) else (value,):
            if isinstance(text, str) and 0 < len(text) < 1000 and not is_written:
                place = f"{what}: {key}"
                yield from ((path, place) for path in _paths(text, folder, place, option))


def _paths(text: str, folder: Path, place: str, option: Option | None) -> list[Path]:
    """Returns the paths of a value: a file, and for a path option also a folder or a pattern."""
    if "\0" in text or "://" in text:
        return []
    base = Path() if isinstance(text, CallerText) else folder
    path = base / text
    is_there = path.is_file() or (option is not None and path.is_dir())
    if is_there and os.path.isabs(text) and not isinstance(text, CallerText):
        _relative(text, folder, place)
    if is_there:
        return [_absolute(path)]
    if option is None or not glob.has_magic(text) or os.path.isabs(text):
        return []
    return [_absolute(Path(name)) for name in glob.glob(str(path), recursive=True)]


def _list_included(pattern: str, folder: Path) -> Found:
    where = f"--include {pattern}"
    _relative(pattern, folder, where)
    names = glob.glob(pattern, root_dir=folder, recursive=True)
    if not names:
        raise ConfigError(
            f"{where}: nothing in {_absolute(folder)} matches; give a pattern relative to the graph"
        )
    own = (name for name in names if "__pycache__" not in Path(name).parts)
    yield from ((_absolute(folder / name), where) for name in own)


def _relative(text: str, folder: Path, where: str) -> Path:
    """Returns the absolute path of a path that is relative to a folder.

    Raises:
        ConfigError: The path is absolute. On another machine such a path names another file, or
            none.
    """
    if os.path.isabs(text):
        near = os.path.relpath(text, folder)
        raise ConfigError(
            f"{where}: got the absolute path {text!r}, which is outside of an archive; expected "
            f"one relative to its file: {near!r}"
        )
    return _absolute(folder / text)


def _modules(graph: Graph, files: Mapping[Path, str]) -> tuple[ImportedModules, list[Path]]:
    """Returns the modules that the units' files import, and the programs that no unit needs."""
    modules = ImportedModules()
    for config in graph.config.nodes:
        module, colon, _ = str(config.attributes.get("flowunit") or "").partition(":")
        if colon:
            modules.add_module(module, f"{config.location}: node {config.name!r}")
    for node in graph.nodes.values():
        for module in node.spec.modules if node.spec else ():
            modules.add_module(module, f"{node.location}: node {node.name!r}")
    units = {file for node in graph.nodes.values() for file in _own_files(node)}
    programs = []
    for file in sorted(files):
        if file.suffix == ".py":
            if file in units or not is_program(file):
                modules.add_file(file)
            else:
                programs.append(file)
    return modules, [file for file in programs if file not in modules.files]


def _own_files(node: Node) -> Iterator[Path]:
    if node.spec is not None:
        yield from map(_absolute, node.spec.required_files)
        if node.spec.location is not None and node.spec.location.file:
            yield _absolute(Path(node.spec.location.file))


def _note_left_out(folders: Collection[Path]) -> Iterator[str]:
    """Yields a note for each link to a folder, which is not followed."""
    links = {
        path
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.is_symlink() and path.is_dir() and not is_passed(path.name)
    }
    for path in sorted(links):
        if path not in folders:
            yield f"{path}: is a link to a folder, which is not packed; put the folder itself there"


def _follow(files: Iterable[Path]) -> Iterator[str]:
    for file in sorted(files):
        if file.is_symlink():
            yield f"{file}: is a link; the content of {file.resolve()} is packed under its name"


def _name_file(
    path: Path,
    files: Mapping[Path, str],
    modules: ImportedModules,
    graph: Graph,
    notes: Sequence[str],
) -> ArchiveParts:
    path = _absolute(path)
    root = Path(os.path.commonpath([*(file.parent for file in files), *modules.roots]))
    if root == Path(root.anchor):
        other = next(file for file in files if file.parts[1:2] != path.parts[1:2])
        raise ConfigError(
            f"{files[other]}: needs {other}, which has no folder in common with {path}; "
            "keep all files of a graph in one folder"
        )
    for file, what in files.items():
        if not file.is_file():
            raise ConfigError(f"{what}: needs {file}, which is not a regular file")
    needs = {extra for node in graph.nodes.values() if node.spec for extra in _extras(node)}
    return ArchiveParts(
        root,
        path.relative_to(root).as_posix(),
        {file.relative_to(root).as_posix(): file for file in files},
        tuple(sorted(folder.relative_to(root).as_posix() for folder in modules.roots)),
        tuple(sorted(needs)),
        frozenset(modules.installed),
        tuple(notes),
    )


def _absolute(path: Path) -> Path:
    """Returns the absolute path without following links, because a file keeps its written name."""
    return Path(os.path.abspath(path))


def _extras(node: Node) -> Iterator[str]:
    assert node.spec is not None  # checked by the caller
    needed = node.spec.list_required_modules(node.config)
    yield from (extra for extra in needed.values() if extra)


def bake(
    graph: Graph, overrides: Mapping[str, Any], args: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the overrides and arguments of a graph in a form that is valid on every machine.

    A path of an existing file or folder is packed, and becomes relative to the graph. Other values
    stay unchanged.

    Args:
        graph: The graph with these values applied, from a file.
        overrides: ``{"node.key": value}``, with paths relative to the working folder.
        args: Values for ``[args]``, with paths relative to the working folder.
    """
    path = graph.config.path
    assert path is not None  # `parts_of` has refused a graph without a file
    changes = flatten(overrides, list(graph.nodes))
    named: dict[str, tuple[Node, ...]] = {name: (node,) for name, node in graph.nodes.items()}
    named["*"] = tuple(graph.nodes.values())
    settings = {
        f"{node}.{key}": _see(value, named[node], key, path.parent) for node, key, value in changes
    }
    written = read_config(path).nodes
    given = {}
    for name, value in args.items():
        places = [
            (graph.nodes[config.name], key)
            for config in written
            for key, text in config.attributes.items()
            if text == f"${name}"
        ]
        found = (_see(value, [node], key, path.parent) for node, key in places)
        given[name] = next((text for text in found if text != str(value)), str(value))
    return settings, given


def _see(value: Any, nodes: Iterable[Node], key: str, folder: Path) -> str:
    text = str(value)
    options = (path_option(node, key) for node in nodes if node.spec and not node.spec.is_sink)
    if any(options) and "://" not in text and os.path.exists(text):
        return Path(os.path.relpath(text, folder)).as_posix()
    return text
