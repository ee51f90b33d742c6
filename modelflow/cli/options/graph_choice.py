"""A graph of the command line: the file (or name), ``--set`` and ``--arg``.

The options win over the environment, and the environment wins over the file.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.config.override import Environment, parse_assignment
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.graph.graph import Graph


class GraphChoice:
    """A graph of the command line: the file (or name), ``--set`` and ``--arg``."""

    def __init__(self, graph: str, overrides: tuple[str, ...], args: tuple[str, ...]) -> None:
        self.source = graph
        self.overrides = read_assignments("--set", overrides)
        self.args = read_assignments("--arg", args)
        self.environment = Environment.of(os.environ)

    @property
    def path(self) -> Path:
        """The graph's file: the given path, or the file of the ready graph with this name.

        Raises:
            ConfigError: There is no such file and no such ready graph.
        """
        path = Path(self.source)
        if path.suffix or path.exists():
            return path
        from modelflow.config.read import find_graph

        return find_graph(self.source)

    def read(
        self, changes: Mapping[str, Any] | None = None, *, check_devices: bool = True
    ) -> "Graph":
        """Reads and checks the graph.

        Args:
            changes: More ``--set`` values, which win over the others.
            check_devices: See `read_graph`.

        Raises:
            ConfigError, GraphError: The graph has mistakes; the error lists all.
        """
        from modelflow.config.read import read_config
        from modelflow.graph.files import look_beside
        from modelflow.graph.read import read_graph

        path = self.path
        look_beside(path)
        overrides = self.overrides | {key: str(value) for key, value in (changes or {}).items()}
        try:
            config = read_config(path)
        except ConfigError as error:
            from modelflow.engine.python.unread import describe_unread  # loads NumPy

            if advice := describe_unread(path):
                raise ConfigError(f"{path}: expected a graph file{advice}") from error
            raise
        with self.environment.name_errors([node.name for node in config.nodes]):
            config = self.environment.apply(config)
            return read_graph(
                config, overrides=overrides, args=self.args, check_devices=check_devices
            )


def read_assignments(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parses several ``KEY=VALUE`` texts into a mapping.

    Raises:
        click.UsageError: A text has another form.
    """
    try:
        return dict(map(parse_assignment, texts))
    except ConfigError as error:
        raise click.UsageError(f"{option}: {error}") from error
