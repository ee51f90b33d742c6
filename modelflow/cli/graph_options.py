"""What every command that reads a graph takes."""

from collections.abc import Callable
from typing import Any

import click

from modelflow.cli.completing import complete_argument, complete_graph, complete_set
from modelflow.cli.graph_choice import GraphChoice

__all__ = ["graph_options"]


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
