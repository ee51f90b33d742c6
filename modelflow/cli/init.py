"""``modelflow init``: a whole application to begin with, that runs."""

from pathlib import Path

import click

from modelflow.cli.choice import Choice
from modelflow.errors import ConfigError
from modelflow.exit_code import ExitCode
from modelflow.starters.template import TEMPLATES, write_template

__all__ = ["init"]


@click.command()
@click.argument("name")
@click.option(
    "--template",
    type=Choice(list(TEMPLATES["application"])),
    default="batch",
    show_default=True,
    help="batch: a folder of pictures by the command line; http: a server and a client; flask: a "
    "graph inside an application; video: a video in, a video out; text: a classifier of texts.",
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=".", help="Where to; default: here."
)
def init(name: str, template: str, folder: Path) -> int:
    """Writes the application NAME into a folder of that name: a graph, units, what makes its model
    and its data, tests, and a README whose commands run.

    \b
    modelflow init colours
    modelflow init topics --template text
    """
    place = folder / name
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        message = f"{place}: is there already; nothing was written"
        raise ConfigError(message)
    for path in write_template("application", template, name, folder):
        click.echo(path)
    click.echo(f"next: cd {place}, and what README.md says", err=True)
    return ExitCode.OK
