"""``new`` and ``init``: a working start for a unit, a graph or an application."""

from pathlib import Path

import click

from modelflow.cli.options.parameters import Choice, Decorator
from modelflow.errors import ConfigError
from modelflow.signals import ExitCode
from modelflow.starters.template import TEMPLATES, write_template

_folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=".",
    show_default=False,
    help="Where to; default: here.",
)


def _template_option(flag: str, what: str, default: str, text: str) -> Decorator:
    names = Choice(list(TEMPLATES[what]))
    return click.option(flag, type=names, default=default, help=text)


@click.group()
def new() -> None:
    """Writes a new flow unit or graph that works, to be changed."""


@new.command()
@click.argument("name")
@_template_option("--kind", "unit", "normal", "Its kind.")
@_folder_option
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
@_template_option("--template", "graph", "images", "What it does; all are of built-in units.")
@_folder_option
def graph(name: str, template: str, folder: Path) -> int:
    """Writes the graph NAME.toml.

    \b
    modelflow new graph thumbnails --template files
    """
    for path in write_template("graph", template, name, folder):
        click.echo(path)
    return ExitCode.OK


@click.command()
@click.argument("name")
@_template_option(
    "--template",
    "application",
    "batch",
    "batch: a folder of pictures by the command line; http: a server and a client; flask: a "
    "graph inside an application; video: a video in, a video out; text: a classifier of texts.",
)
@_folder_option
def init(name: str, template: str, folder: Path) -> int:
    """Writes the application NAME into a folder of that name: a graph, units, what makes its model
    and its data, tests, and a README whose commands run.

    \b
    modelflow init colours
    modelflow init topics --template text
    """
    place = folder / name
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConfigError(f"{place}: is there already; nothing was written")
    for path in write_template("application", template, name, folder):
        click.echo(path)
    click.echo(f"next: cd {place}, and what README.md says", err=True)
    return ExitCode.OK
