"""The files that a graph is made of: whoever changes one of them changes the graph."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modelflow.config.flow_config import FlowConfig
from modelflow.errors import ConfigError
from modelflow.graph.graph import Graph
from modelflow.graph.node import Node

__all__ = ["MOST_FILES", "files_behind", "files_in", "files_of", "is_passed"]

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
    return {*_written_in(graph.config), *files_behind(graph)}


def files_behind(graph: Graph) -> set[Path]:
    """Returns the files that the nodes of a graph need: units, models, files that options name."""
    return {path for node in graph.nodes.values() for path in _behind(node, graph.config)}


def _written_in(config: FlowConfig) -> Iterator[Path]:
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
            message = (
                f"{folder}: holds more than {MOST_FILES} files; expected a folder of units alone "
                "([driver] dir)"
            )
            raise ConfigError(message)
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
