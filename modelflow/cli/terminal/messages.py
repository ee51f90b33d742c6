"""Messages on stderr: notes, warnings and errors, with colours on a terminal.

``NO_COLOR`` in the environment turns colours off, ``FORCE_COLOR`` turns them on.
"""

import logging
import os
import re
from typing import Literal

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
    return True if os.environ.get("FORCE_COLOR") else None


def tell(kind: Literal["error", "warning", "note", "advice"], text: str) -> None:
    """Writes ``kind: text`` on stderr."""
    name = click.style(f"{kind}:", fg=_STYLES[kind], bold=True)
    click.echo(f"{name} {text}", err=True, color=colour_wish())


def tell_error(text: str) -> None:
    """Prints an error with its place on stderr: ``graph.toml:3: unknown section 'grpah'``."""
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


class LevelFormatter(logging.Formatter):
    """A formatter that colours the level of log messages, for a terminal."""

    def __init__(self, *, is_coloured: bool) -> None:
        """Takes whether to use colours."""
        super().__init__("%(levelname)s: %(message)s")
        self._is_coloured = is_coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Returns the line of a record."""
        text = super().formatMessage(record)
        level = record.levelname
        colour = next((colour for least, colour in _LEVELS if record.levelno >= least), None)
        if not self._is_coloured or colour is None:
            return text
        return click.style(level, fg=colour, bold=True) + text.removeprefix(level)
