"""A command whose many options stand in its help under headings."""

from collections.abc import Mapping, Sequence

import click


class GroupedCommand(click.Command):
    """A command that shows its options in groups.

    Attributes:
        groups: By heading the names of the options, as the function has them; what is in none
            stands under ``Options``.
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
