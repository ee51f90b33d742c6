"""A parameter that takes one of some words."""

from typing import TYPE_CHECKING, Any

import click

from modelflow.errors import did_you_mean

__all__ = ["Choice"]

if TYPE_CHECKING:
    _Base = click.Choice[str]
else:
    _Base = click.Choice  # click 8.1 has no types for it


class Choice(_Base):
    """One of some words; of another word it says which one may be meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the word.

        Raises:
            click.BadParameter: it is none of them.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            near = did_you_mean(str(value), self.choices)
            self.fail(f"got {value!r}{near}; expected {', '.join(self.choices)}", param, ctx)
