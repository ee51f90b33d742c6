"""Options from environment variables: ``MODELFLOW_RUN_KEEP_GOING=1`` sets ``run --keep-going``.

A variable is named after the command and the longest form of the option.
"""

import functools
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import click

from modelflow.cli.terminal.messages import tell
from modelflow.errors import did_you_mean

_OWN = "MODELFLOW_"


def name_variables(command: click.Command, prefix: str, *, is_told: bool = False) -> None:
    """Lets environment variables set the options of a command and of its subcommands.

    Flags that end a command at once, such as ``--help`` and ``--version``, have no variable.

    Args:
        command: The command.
        prefix: The prefix of the variables, without the ``_`` behind it.
        is_told: Whether to print a note for a variable with this prefix that names no option.
    """
    known = options_by_variable(command, prefix)
    for variable, option in known.items():
        # An option that was copied from another command has that command's variable.
        others = [name for name in _variables_of(option) if not name.startswith(_OWN)]
        option.envvar = [variable, *others]
    inner = command.commands if isinstance(command, click.Group) else {}
    for name, one in inner.items():
        name_variables(one, f"{prefix}_{_spell(name)}", is_told=True)
    if is_told and command.callback is not None:
        passed = tuple(f"{prefix}_{_spell(name)}_" for name in inner)
        command.callback = _telling(command.callback, f"{prefix}_", known, passed)


def options_by_variable(command: click.Command, prefix: str) -> dict[str, click.Option]:
    """Returns the options of a command by the names of their variables.

    Args:
        command: The command.
        prefix: The prefix of the variables, without the ``_`` behind it.
    """
    return {
        f"{prefix}_{_spell(max(option.opts, key=len).lstrip('-'))}": option
        for option in command.params
        if isinstance(option, click.Option) and not (option.is_eager and option.is_flag)
    }


def variable_of(option: click.Option) -> str:
    """Returns the variable that has set an option."""
    return next((name for name in _variables_of(option) if os.environ.get(name)), "")


def _variables_of(option: click.Option) -> Sequence[str]:
    return [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()


def _spell(name: str) -> str:
    return name.replace("-", "_").upper()


def _telling(
    callback: Callable[..., Any], prefix: str, known: Collection[str], passed: tuple[str, ...]
) -> Callable[..., Any]:
    @functools.wraps(callback)
    def telling(*args: Any, **given: Any) -> Any:
        if not click.get_current_context().params.get("quiet"):
            for name in sorted(os.environ):
                if name.startswith(prefix) and not name.startswith(passed) and name not in known:
                    near = did_you_mean(name, known)
                    tell("note", f"environment: {name} names no option and has no effect{near}")
        return callback(*args, **given)

    return telling
