"""Parameter types, common forms of options, and headings for groups of options."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.shell_completion import complete_input
from modelflow.errors import did_you_mean
from modelflow.quantities import bytes_of


class GroupedCommand(click.Command):
    """A command that shows its options in groups.

    Attributes:
        groups: Heading -> the parameter names of its options. Other options are shown under
            ``Options``.
    """

    groups: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options under their headings."""
        heading = {name: title for title, names in self.groups.items() for name in names}
        for title in ("Options", *self.groups):
            rows = [
                row
                for one in self.get_params(ctx)
                if heading.get(one.name or "", "Options") == title
                and (row := one.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


if TYPE_CHECKING:
    _Base = click.Choice[str]
else:
    _Base = click.Choice  # click 8.1 has no type parameter for it


class Choice(_Base):
    """A word of a list; the error for an unknown word suggests the nearest word of the list."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the word.

        Raises:
            click.BadParameter: The word is not in the list.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            near = did_you_mean(str(value), self.choices)
            self.fail(f"got {value!r}{near}; expected {', '.join(self.choices)}", param, ctx)


class FiniteRange(click.FloatRange):
    """A number in a range, but not infinity or NaN, which `click.FloatRange` accepts."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the number, or fails with the expected range."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


def read_size(text: str) -> float:
    """Parses a number of bytes with its unit, such as ``8GiB``; for an option's ``type``.

    Raises:
        click.BadParameter: The text has another form, or no unit. Without a unit the meaning is
        unclear.
    """
    found = None if text.strip().isdigit() else bytes_of(text)
    if not found:
        raise click.BadParameter(f"got {text!r}; expected a size with its unit, as in 8GiB")
    return found


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def declare_repeated(flag: str, name: str, metavar: str, text: str, **more: Any) -> Decorator:
    """Declares an option that may be repeated; the command receives a tuple of texts."""
    return click.option(flag, name, multiple=True, metavar=metavar, help=text, **more)


def declare_input(metavar: str, text: str) -> Decorator:
    """Declares ``--input``; the command receives the values as ``inputs``."""
    return declare_repeated("--input", "inputs", metavar, text, shell_complete=complete_input)


def declare_written_file(flag: str, name: str, text: str) -> Decorator:
    """Declares an option for a file to write; the command receives the path as text, or None."""
    path = click.Path(dir_okay=False, writable=True)
    return click.option(flag, name, type=path, metavar="FILE", help=text)


def declare_file(flag: str, name: str, text: str) -> Decorator:
    """Declares an option for a file; the command receives a `Path`, or None."""
    path = click.Path(dir_okay=False, path_type=Path)
    return click.option(flag, name, type=path, metavar="FILE", help=text)
