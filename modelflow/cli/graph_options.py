"""What every command that reads a graph takes."""

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from modelflow.cli.completing import complete_argument, complete_graph, complete_set
from modelflow.cli.graph_choice import GraphChoice
from modelflow.cli.option_variables import variable_of
from modelflow.cli.telling import tell
from modelflow.config.environment import Environment

__all__ = ["graph_options", "tell_environment"]


def tell_environment(environment: Environment) -> None:
    """Tells on stderr what the environment says: settings of the graph, and options."""
    for text in environment.notes():
        tell("note", f"environment: {text}")
    context = click.get_current_context()
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is ParameterSource.ENVIRONMENT and isinstance(option, click.Option):
            tell("note", f"environment: {variable_of(option)} is {max(option.opts, key=len)}")


def graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds GRAPH, ``--set`` and ``--arg`` to a command, which gets them as ``graph``."""

    def wrapped(graph: str, overrides: tuple[str, ...], args: tuple[str, ...], **more: Any) -> Any:
        choice = GraphChoice(graph, overrides, args)
        if not more.get("quiet"):
            tell_environment(choice.environment)
        return command(graph=choice, **more)

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
