"""Options of the shapes that many commands have: inputs of a graph, repeated options, files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from modelflow.cli.options.shell_completion import complete_input

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def declare_repeated(flag: str, name: str, metavar: str, text: str, **more: Any) -> Decorator:
    """Declares an option that may be given several times; the command gets a tuple of texts."""
    return click.option(flag, name, multiple=True, metavar=metavar, help=text, **more)


def declare_input(metavar: str, text: str) -> Decorator:
    """Declares ``--input``, which the command gets as ``inputs``."""
    return declare_repeated("--input", "inputs", metavar, text, shell_complete=complete_input)


def declare_written_file(flag: str, name: str, text: str) -> Decorator:
    """Declares an option that names a file to write; the command gets its path as text, or None."""
    path = click.Path(dir_okay=False, writable=True)
    return click.option(flag, name, type=path, metavar="FILE", help=text)


def declare_file(flag: str, name: str, text: str, metavar: str = "FILE") -> Decorator:
    """Declares an option that names a file; the command gets a `Path`, or None."""
    path = click.Path(dir_okay=False, path_type=Path)
    return click.option(flag, name, type=path, metavar=metavar, help=text)
