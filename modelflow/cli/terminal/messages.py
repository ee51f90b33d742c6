"""Messages on stderr: notes, warnings and errors, with colours on a terminal.

``NO_COLOR`` and ``TERM=dumb`` in the environment turn colours off, ``FORCE_COLOR`` turns them on.
On a terminal, lines break between words.
"""

import logging
import os
import re
import shutil
import sys
import textwrap
from typing import Literal, TextIO

import click

from modelflow.errors import FlowFailed, FlowUnitError

_STYLES = {"error": "red", "warning": "yellow", "note": "cyan", "advice": "cyan"}
_PLACE = re.compile(r"^\S+?:\d+: ", re.MULTILINE)
# Log messages of this level and above have this colour.
_LEVELS = ((logging.ERROR, "red"), (logging.WARNING, "yellow"), (logging.INFO, "cyan"))


def colour_wish() -> bool | None:
    """Returns whether the environment wants colours, or None to use them on a terminal only."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if is_dumb() else None


def is_dumb() -> bool:
    """Returns whether the terminal can neither colour text nor move the cursor."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def wrap(text: str, stream: TextIO, *, indent: str = "") -> str:
    """Returns a text with line breaks between words where a terminal would break inside words.

    Args:
        text: The text, without colours.
        stream: The stream. The text stays as it is if the stream is no terminal.
        indent: The beginning of the lines that this function adds.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = []
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        fitted = textwrap.wrap(
            line,
            width,
            subsequent_indent=margin + indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += fitted if len(line) > width else [line]
    return "\n".join(lines)


def say(text: str) -> None:
    """Prints lines on standard output, on a terminal with line breaks between words."""
    click.echo(wrap(text, sys.stdout, indent="  "))


def tell(kind: Literal["error", "warning", "note", "advice"], text: str) -> None:
    """Writes ``kind: text`` on stderr."""
    name = click.style(f"{kind}:", fg=_STYLES[kind], bold=True)
    said = wrap(f"{kind}: {text}", sys.stderr).removeprefix(f"{kind}:")
    click.echo(name + said, err=True, color=colour_wish())


def tell_error(text: str) -> None:
    """Prints an error with its place on stderr: ``graph.toml:3: unknown section 'grpah'``."""
    text = wrap(text, sys.stderr)
    lines, end = [], 0
    for place in _PLACE.finditer(text):
        lines += [_color_red(text[end : place.start()]), click.style(place[0], bold=True)]
        end = place.end()
    click.echo("".join([*lines, _color_red(text[end:])]), err=True, color=colour_wish())


def tell_failed(failure: FlowFailed) -> None:
    """Prints each cause of a flow's failure on stderr, with the line of the user's code."""
    for inner in failure.exceptions:
        where = inner.where if isinstance(inner, FlowUnitError) else ""
        tell_error(f"{inner} ({where})" if where else str(inner))


def _color_red(text: str) -> str:
    return click.style(text, fg="red") if text.strip() else text


class TerminalHandler(logging.StreamHandler[TextIO]):
    """A handler that writes to the present `sys.stderr`, which a progress line replaces."""

    @property
    def stream(self) -> TextIO:
        """The present stream."""
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Ignores the stream that the base class has stored at the start."""


class LevelFormatter(logging.Formatter):
    """A formatter that colours the level of log messages, for a terminal."""

    def __init__(self, *, is_coloured: bool) -> None:
        """Takes whether to use colours."""
        super().__init__("%(levelname)s: %(message)s")
        self._is_coloured = is_coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Returns the line of a record."""
        text = wrap(super().formatMessage(record), sys.stderr)
        level = record.levelname
        colour = next((colour for least, colour in _LEVELS if record.levelno >= least), None)
        if not self._is_coloured or colour is None:
            return text
        return click.style(level, fg=colour, bold=True) + text.removeprefix(level)
