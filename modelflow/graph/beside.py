"""Modules that lie beside a graph file: ``units:mean`` is found there as well."""

import sys
from collections.abc import Iterator
from pathlib import Path

from modelflow.config.flow_config import FlowConfig, NodeConfig
from modelflow.errors import ConfigError, is_users

__all__ = ["check_beside", "imported_modules", "look_beside"]


def look_beside(path: Path) -> None:
    """Has modules be found in the folder of a graph file, behind all other places."""
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)


def imported_modules(config: FlowConfig) -> Iterator[tuple[NodeConfig, str, Path]]:
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
    for node, name, file in imported_modules(config):
        beside = folder / f"{name}.py"
        other = file.resolve()
        if beside.is_file() and other != beside and not _is_same(other, beside):
            message = (
                f"{node.location}: node {node.name!r}: the module {name!r} beside the graph is "
                f"another than the one that was imported from {file}; rename one, pack the two "
                "graphs, or serve them in processes of their own"
            )
            raise ConfigError(message)


def _is_same(one: Path, other: Path) -> bool:
    """Tells whether two files hold the same."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:  # one has gone, or may not be read
        return False
