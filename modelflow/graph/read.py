"""Reads a checked `Graph` from any description of a graph."""

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import apply_overrides, substitute_args
from modelflow.config.read import read_config
from modelflow.errors import ConfigError
from modelflow.graph.build import build_graph
from modelflow.graph.files import list_imported_modules
from modelflow.graph.graph import Graph
from modelflow.graph.in_code import FlowGraphDesc
from modelflow.registry.forget import forget_named, users_modules
from modelflow.registry.registry import Registry

# Graphs of archives are built one at a time, because the module search path belongs to the process.
_importing = threading.Lock()

Source = str | os.PathLike[str] | Mapping[str, Any] | FlowConfig | FlowGraphDesc


def read_graph(  # noqa: PLR0913 - what a caller may change
    source: Source,
    *,
    format: str | None = None,  # noqa: A002 - the API's name
    overrides: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    units: Iterable[Any] = (),
    registry: Registry | None = None,
    check_devices: bool = True,
) -> Graph:
    """Reads and checks a graph, without running a unit.

    Args:
        source: A path of a graph file or an archive, the text of a graph file, or a mapping in the
            native form. Also a `FlowGraphDesc`, or a `FlowConfig`.
        format: ``toml``, ``yaml``, ``json`` or ``dot``. None: by suffix or content.
        overrides: ``{"node.key": value}``, as ``--set`` on the command line.
        args: Values for the graph's ``[args]``.
        units: Flow units for this graph only.
        registry: The units by name. None: the units in folders that the graph names, and the
            built-in and installed units.
        check_devices: Whether devices, and the files of units, must exist on this machine.

    Raises:
        ConfigError: The text has mistakes, which are all listed, or an argument has another type.
        GraphError: The graph has mistakes; the error lists all.
    """
    if isinstance(source, FlowGraphDesc):
        units = (*source.units, *units)
        source = source.to_config()
    check_arguments(overrides, args, units)
    config = source if isinstance(source, FlowConfig) else read_config(source, format)
    config = substitute_args(apply_overrides(config, overrides or {}), args or {})
    if registry is None:
        folder = config.path.parent if config.path else Path()
        registry = Registry(
            [folder / part for part in config.driver.get("dir", ())],
            skip_default=config.driver.get("skip-default", False),
            units=tuple(units),
        )
    with _modules_of(config):
        return build_graph(config, registry, check_devices=check_devices)


@contextlib.contextmanager
def _modules_of(config: FlowConfig) -> Iterator[None]:
    """Makes modules of a graph's archive importable inside the block.

    Modules of other archives are forgotten, because two archives (or versions of one) may have
    modules of the same names. Code that has imported a forgotten module keeps it.

    Raises:
        ConfigError: A module of that name was imported from another place.
    """
    if not config.modules:
        yield
        return
    from modelflow.archive.unpack import is_unpacked  # here, because few programs use archives

    folders = list(map(str, config.modules))
    with _importing:
        others = [
            name
            for name, file in users_modules().items()
            if is_unpacked(file) and not any(file.is_relative_to(folder) for folder in folders)
        ]
        forget_named(others)
        importlib.invalidate_caches()
        sys.path[:] = [*folders, *(folder for folder in sys.path if folder not in folders)]
        _check_modules(config, folders)
        yield


def _check_modules(config: FlowConfig, folders: Sequence[str]) -> None:
    for node, module, file in list_imported_modules(config):
        if not any(file.is_relative_to(folder) for folder in folders):
            raise ConfigError(
                f"{node.location}: node {node.name!r}: the module {module!r} of {config.archive} "
                f"is not the one imported from {file}. Run both in processes "
                "of their own, or rename one"
            )


def check_arguments(overrides: object, args: object, units: object) -> None:
    """Checks the types of the arguments that a caller gives in addition to a graph.

    Raises:
        ConfigError: An argument has another type.
    """
    for name, given, example in (
        ("overrides", overrides, "{'NODE.KEY': value}"),
        ("args", args, "{'NAME': value}"),
    ):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"{name}: got {type(given).__name__}; expected a mapping: {example}")
    if isinstance(units, str) or not isinstance(units, Iterable):
        raise ConfigError(
            f"units: got {type(units).__name__}; expected a list of flow units: units=[...]"
        )
