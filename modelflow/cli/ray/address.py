"""Which cluster the commands of ``modelflow ray`` use."""

import click

from modelflow.errors import ConfigError


def _check(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Returns the address, which is of its form.

    Raises:
        click.UsageError: there is none, or it is none.
    """
    if context.resilient_parsing:
        return value
    from modelflow.remote.ray.cluster import check_address

    try:
        return check_address(value)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


address_option = click.option(
    "--address",
    envvar="RAY_ADDRESS",
    metavar="HOST:PORT",
    callback=_check,
    help="The cluster; 'auto': the one of this machine. Without it RAY_ADDRESS says where it is. "
    "None is ever started.",
)
"""Adds ``--address`` to a command."""
