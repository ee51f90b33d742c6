"""What every command that reads a graph takes, and how it reads it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.completing import complete_argument, complete_graph, complete_set
from modelflow.config.override import parse_assignment
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.graph.graph import Graph

__all__ = ["GraphChoice", "graph_options"]


class GraphChoice:
    """A graph as the command line names it: the file (or name), ``--set`` and ``--arg``."""

    def __init__(self, graph: str, overrides: tuple[str, ...], args: tuple[str, ...]) -> None:
        self.source = graph
        self.overrides = dict(_assignment("--set", text) for text in overrides)
        self.args = dict(_assignment("--arg", text) for text in args)

    @property
    def path(self) -> Path:
        """The graph's file: the path given, or the ready graph of that name.

        Raises:
            ConfigError: there is neither.
        """
        path = Path(self.source)
        if path.suffix or path.exists():
            return path
        from modelflow.config.find import find_graph

        return find_graph(self.source)

    def read(
        self, changes: Mapping[str, Any] | None = None, *, check_devices: bool = True
    ) -> "Graph":
        """Reads and checks the graph.

        Args:
            changes: More of what ``--set`` changes, which win.
            check_devices: See `read_graph`.

        Raises:
            ConfigError, GraphError: with every mistake.
        """
        from modelflow.graph.read import read_graph

        path = self.path
        # Units named by module ("units:mean") may stand beside the graph as well.
        folder = str(path.parent.resolve())
        if folder not in sys.path:
            sys.path.append(folder)
        overrides = {
            **self.overrides,
            **{key: str(value) for key, value in (changes or {}).items()},
        }
        return read_graph(path, overrides=overrides, args=self.args, check_devices=check_devices)


def graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds GRAPH, ``--set`` and ``--arg`` to a command, which gets them as ``graph``."""

    def wrapped(graph: str, overrides: tuple[str, ...], args: tuple[str, ...], **more: Any) -> Any:
        return command(graph=GraphChoice(graph, overrides, args), **more)

    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    wrapped.__dict__.update(command.__dict__)  # the options that are declared below this one
    wrapped = click.option(
        "--arg",
        "args",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=complete_argument,
        help="A value for [args.NAME].",
    )(wrapped)
    wrapped = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="NODE.KEY=VALUE",
        shell_complete=complete_set,
        help="Changes an attribute of a node; '*.KEY=VALUE' of every node. May be repeated.",
    )(wrapped)
    return click.argument("graph", shell_complete=complete_graph)(wrapped)


def _assignment(option: str, text: str) -> tuple[str, str]:
    try:
        return parse_assignment(text)
    except ConfigError as error:
        message = f"{option}: {error}"
        raise click.UsageError(message) from error
