"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click

from modelflow.sizes import bytes_of

__all__ = ["FiniteRange", "Size"]


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


class Size(click.ParamType[float]):
    """A number of bytes with its unit: ``8GiB``."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Reads it, or says what it should be: a bare number may be meant as bytes, or not."""
        found = None if str(value).strip().isdigit() else bytes_of(value)
        if not found:
            self.fail(f"got {value!r}; expected a size with its unit, as in 8GiB", param, ctx)
        return found
