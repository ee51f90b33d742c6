"""Arguments and options of every command that reads a graph."""

import functools
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from modelflow.cli.options.environment import variable_of
from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.parameters import declare_repeated
from modelflow.cli.options.shell_completion import complete_argument, complete_graph, complete_set
from modelflow.cli.terminal.messages import tell
from modelflow.config.override import Environment
from modelflow.errors import ArgumentError


def tell_environment(environment: Environment) -> None:
    """Prints the settings and options that the environment sets as notes on stderr."""
    for text in environment.notes():
        tell("note", f"environment: {text}")
    context = click.get_current_context()
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is ParameterSource.ENVIRONMENT and isinstance(option, click.Option):
            tell("note", f"environment: {variable_of(option)} is {max(option.opts, key=len)}")


def graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds GRAPH, ``--set`` and ``--arg`` to a command; the command receives them as ``graph``."""

    @click.argument("graph", shell_complete=complete_graph)
    @declare_repeated(
        "--set",
        "overrides",
        "NODE.KEY=VALUE",
        "Set an attribute of a node, or with '*.KEY=VALUE' of every node. May be repeated.",
        shell_complete=complete_set,
    )
    @declare_repeated(
        "--arg", "args", "NAME=VALUE", "A value for [args.NAME].", shell_complete=complete_argument
    )
    @functools.wraps(command)  # also copies the options that are declared below this decorator
    def wrapper(graph: str, overrides: tuple[str, ...], args: tuple[str, ...], **more: Any) -> Any:
        choice = GraphChoice(graph, overrides, args)
        if not more.get("quiet"):
            tell_environment(choice.environment)
        try:
            return command(graph=choice, **more)
        except ArgumentError as error:
            raise click.UsageError(str(error)) from error

    return wrapper
