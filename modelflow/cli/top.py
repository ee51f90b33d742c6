"""``modelflow top``: the figures of a running flow, again and again."""

import time
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.asking import address_of, ask
from modelflow.cli.figures import headline, table_console, table_of
from modelflow.errors import ConfigError
from modelflow.exit_code import ExitCode

if TYPE_CHECKING:
    from modelflow.profile.interval import Interval

__all__ = ["top"]


@click.command()
@click.argument("url")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it is asked; the figures are those of the time between.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="How often it is shown; without it until Ctrl-C, or until the flow has ended.",
)
def top(url: str, interval: float, count: int | None) -> int:
    """Shows what each node of a running flow does now: rates, where its workers' time goes, queues.

    URL is where 'modelflow run --metrics' or 'modelflow serve' answers: a port of this machine,
    HOST:PORT or a URL; of a server with several models http://HOST:PORT/stats/MODEL. A server
    with API keys gets that in $MODELFLOW_API_KEY.

    \b
    modelflow run graph.toml --metrics 9100 &
    modelflow top 9100
    """
    from rich.live import Live

    from modelflow.profile.interval import Interval

    address = address_of(url)
    before = ask(address)
    console = table_console()
    with Live(console=console, auto_refresh=False, transient=False) as live:
        shown = 0
        while count is None or shown < count:
            time.sleep(interval)
            try:
                after = ask(address)
            except ConfigError as error:
                if not shown:
                    raise
                console.print(f"the flow has ended, or answers no more: {error}")
                return ExitCode.OK
            _show(live, Interval.between(before.stats, after.stats))
            before, shown = after, shown + 1
    return ExitCode.OK


def _show(live: Any, interval: "Interval") -> None:
    from rich.console import Group
    from rich.text import Text

    found: Group = Group(Text(headline(interval)), table_of(interval))
    if live.console.is_terminal:
        live.update(found, refresh=True)
    else:
        live.console.print(found)
