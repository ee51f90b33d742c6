"""``modelflow init``: a whole application to begin with, that runs."""

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

import click

from modelflow.cli.choice import Choice
from modelflow.errors import ConfigError
from modelflow.exit_code import ExitCode
from modelflow.files.whole_file import write_whole

__all__ = ["TEMPLATES", "init"]

# The folders that a template is made of; a later one's files go over an earlier one's.
TEMPLATES = {
    "batch": ("pictures", "batch"),
    "http": ("pictures", "http"),
    "flask": ("pictures", "flask"),
    "video": ("video",),
    "text": ("text",),
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


@click.command()
@click.argument("name")
@click.option(
    "--template",
    type=Choice(list(TEMPLATES)),
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
    if not _NAME.match(name):
        message = (
            f"name: got {name!r}; expected lower-case letters, digits and '_', beginning with a "
            "letter, 64 at most"
        )
        raise ConfigError(message)
    place = folder / name
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        message = f"{place}: is there already; nothing was written"
        raise ConfigError(message)
    for path, text in sorted(_files(template).items()):
        written = place / path
        try:
            write_whole(written, text.replace("{{name}}", name).encode())
        except OSError as error:
            message = f"{written}: cannot be written: {error.strerror or error}"
            raise ConfigError(message) from error
        click.echo(written)
    click.echo(f"next: cd {place}, and what README.md says", err=True)
    return ExitCode.OK


def _files(template: str) -> dict[PurePath, str]:
    root = files("modelflow.cli") / "templates"
    return {
        path: found.read_text(encoding="utf-8")
        for part in TEMPLATES[template]
        for path, found in _below(root / part, PurePath())
    }


def _below(folder: Traversable, path: PurePath) -> Iterator[tuple[PurePath, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _below(entry, path / entry.name)
        else:
            yield path / entry.name, entry
