"""Numbers on the command line."""

import math
from typing import Any

import click

from modelflow.sizes import bytes_of

__all__ = ["FiniteRange", "read_size"]


class FiniteRange(click.FloatRange):
    """A number in a range; neither infinite nor NaN, which no range keeps out."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Reads it, or says what it should be."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


def read_size(text: str) -> float:
    """Reads a number of bytes with its unit: ``8GiB``; for an option's ``type``.

    Raises:
        click.BadParameter: it is of another form, or has no unit: it may be meant as bytes, or not.
    """
    found = None if text.strip().isdigit() else bytes_of(text)
    if not found:
        message = f"got {text!r}; expected a size with its unit, as in 8GiB"
        raise click.BadParameter(message)
    return found
