"""The commands ``new`` and ``init``: a working unit, graph or application to start from."""

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
    help="The parent folder. Default: the current folder.",
)


def _template_option(flag: str, what: str, default: str, text: str) -> Decorator:
    names = Choice(list(TEMPLATES[what]))
    return click.option(flag, "template", type=names, default=default, help=text)


def _write(what: str, template: str, name: str, folder: Path) -> int:
    for path in write_template(what, template, name, folder):
        click.echo(path)
    return ExitCode.OK


@click.group()
def new() -> None:
    """Writes a new flow unit, model or graph that works, for you to change."""


@new.command()
@click.argument("name")
@_template_option("--kind", "unit", "normal", "The kind of the unit.")
@_folder_option
def unit(name: str, template: str, folder: Path) -> int:
    """Writes the flow unit NAME into a folder of that name: TOML, Python and a test.

    \b
    modelflow new unit sharpen
    modelflow new unit my_model --kind inference --dir units
    """
    return _write("unit", template, name, folder)


@new.command()
@click.argument("name")
@_template_option("--for", "model", "python", "The library that runs the model.")
@_folder_option
def model(name: str, template: str, folder: Path) -> int:
    """Writes the folder NAME with a class that runs a model of another library. The folder also has
    a unit file, a graph, a script that makes a tiny model, and a test.

    \b
    modelflow new model iris --for sklearn
    modelflow serve iris
    """
    return _write("model", template, name, folder)


@new.command()
@click.argument("name")
@_template_option(
    "--template",
    "graph",
    "images",
    "The task of the graph. classify and objects also write their models, into units/.",
)
@_folder_option
def graph(name: str, template: str, folder: Path) -> int:
    """Writes the graph NAME.toml and its units.

    \b
    modelflow new graph thumbnails --template files
    modelflow new graph shapes --template classify
    """
    return _write("graph", template, name, folder)


@click.command()
@click.argument("name")
@_template_option(
    "--template",
    "application",
    "batch",
    "batch: pictures by the command line; http: a server and a client; flask: a graph in an "
    "application; video: video to video; text: a classifier.",
)
@_folder_option
def init(name: str, template: str, folder: Path) -> int:
    """Writes the application NAME into a folder of that name. The folder has a graph, units, tests,
    a script that makes the model and its data, and a README whose commands run.

    \b
    modelflow init colours
    modelflow init topics --template text
    """
    place = folder / name
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConfigError(f"{place}: is there already; nothing was written")
    _write("application", template, name, folder)
    click.echo(f"next: cd {place}, then follow README.md", err=True)
    return ExitCode.OK
