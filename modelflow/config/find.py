"""Finding a graph by its name, among the files of a folder."""

import os
from pathlib import Path

from modelflow.config.read import read_config
from modelflow.errors import ConfigError, did_you_mean

__all__ = ["find_graph", "named_graphs", "ready_graphs"]

_SUFFIXES = (".toml", ".yaml", ".yml", ".json")


def ready_graphs() -> Path:
    """Returns the folder of the graphs that come with modelflow."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "graphs"  # in a wheel
    return inside if inside.is_dir() else package.parent / "graphs"  # in a source checkout


def find_graph(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Returns the graph file whose ``[flow] name`` is ``name``.

    Args:
        name: The name.
        folder: Where to look; None: among the graphs that come with modelflow.

    Raises:
        ConfigError: there is none; the message lists the names that are there.
    """
    where = ready_graphs() if folder is None else Path(folder)
    if not where.is_dir():
        message = f"{where}: there is no such folder to find the graph {name!r} in"
        raise ConfigError(message)
    named = named_graphs(where)
    if name not in named:
        there = ", ".join(named) or "none"
        message = f"{where}: no graph is named {name!r}{did_you_mean(name, named)}; found: {there}"
        raise ConfigError(message)
    return named[name]


def named_graphs(folder: Path) -> dict[str, Path]:
    """Returns the graph files of a folder by ``[flow] name``, or by the file's where it has none.

    Raises:
        ConfigError: one of them cannot be read.
    """
    named: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES:
            named.setdefault(read_config(path).flow.get("name") or path.stem, path)
    return named
