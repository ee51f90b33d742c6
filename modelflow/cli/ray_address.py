"""Which cluster the commands of ``modelflow ray`` use."""

import click

__all__ = ["address_option"]

address_option = click.option(
    "--address",
    envvar="RAY_ADDRESS",
    metavar="HOST:PORT",
    help="The cluster; 'auto': the one of this machine. Without it RAY_ADDRESS says where it is. "
    "None is ever started.",
)
"""Adds ``--address`` to a command."""
