"""``modelflow new``: a working start for a unit or a graph."""

from pathlib import Path

import click

from modelflow.cli.choice import Choice
from modelflow.exit_code import ExitCode
from modelflow.starters.template import TEMPLATES, write_template

__all__ = ["new"]


@click.group()
def new() -> None:
    """Writes a new flow unit or graph that works, to be changed."""


@new.command()
@click.argument("name")
@click.option(
    "--kind",
    type=Choice(list(TEMPLATES["unit"])),
    default="normal",
    show_default=True,
    help="Its kind.",
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=".", help="Where to; default: here."
)
def unit(name: str, kind: str, folder: Path) -> int:
    """Writes the flow unit NAME into a folder of that name: TOML, Python, a test.

    \b
    modelflow new unit sharpen
    modelflow new unit my_model --kind inference --dir units
    """
    for path in write_template("unit", kind, name, folder):
        click.echo(path)
    return ExitCode.OK


@new.command()
@click.argument("name")
@click.option(
    "--template",
    type=Choice(list(TEMPLATES["graph"])),
    default="images",
    show_default=True,
    help="What it does; all are of built-in units.",
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=".", help="Where to; default: here."
)
def graph(name: str, template: str, folder: Path) -> int:
    """Writes the graph NAME.toml.

    \b
    modelflow new graph thumbnails --template files
    """
    for path in write_template("graph", template, name, folder):
        click.echo(path)
    return ExitCode.OK
