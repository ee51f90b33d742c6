"""``modelflow top`` and ``modelflow dashboard``: a running flow in the terminal or the browser."""

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.insight.fetch import address_of, ask
from modelflow.cli.insight.stats_table import headline, table_console, table_of
from modelflow.cli.terminal.listening import show_until_the_end, split_address
from modelflow.errors import ConfigError, explain_os_error
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from modelflow.profile.interval import Interval
    from modelflow.profile.snapshot import Snapshot
    from modelflow.studio.recorder import Record


@click.command()
@click.argument("url")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
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


# Seconds for an answer, while the page says that there is none; a Ctrl-C waits no longer.
_PATIENCE = 2.0


@click.command()
@click.argument("url")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="[HOST:]PORT",
    help="Where the page is served; port 0: any that is free.",
)
@click.option("--no-browser", is_flag=True, help="Print the page's address, and open no browser.")
def dashboard(url: str, listen: str, no_browser: bool) -> int:
    """Shows a running flow in the browser: its graph, rates, queues, errors, what limits it.

    URL is where 'modelflow run --metrics' or 'modelflow serve' answers: a port of this machine,
    HOST:PORT or a URL; of a server with several models http://HOST:PORT/stats/MODEL. A server
    with API keys gets that in $MODELFLOW_API_KEY. Ctrl-C ends it. A flow of your own is shown by
    'modelflow run --dashboard' as well.

    \b
    modelflow serve graph.toml &
    modelflow dashboard 8501
    """
    address = address_of(url)
    ask(address)  # else a mistake would be told in the page alone
    with show_in_browser("--listen", listen, lambda: ask(address, _PATIENCE)) as page:
        return show_until_the_end("dashboard", page, is_opened=not no_browser)


@contextlib.contextmanager
def show_in_browser(
    option: str, address: str, look: "Callable[[], Snapshot]", record: "Record | None" = None
) -> "Iterator[str]":
    """Serves the page of a flow inside the block; gives its URL.

    Args:
        option: The option that says where, for messages.
        address: Where.
        look: Gives the flow as it is now.
        record: `Flow.record`; None: the page cannot record.

    Raises:
        click.UsageError: the address is wrong.
        ConfigError: it is taken.
    """
    from modelflow.studio.dashboard import Dashboard

    host, port = split_address(option, address)
    with contextlib.ExitStack() as stack:
        with explain_os_error(f"{option} {address}: cannot listen there"):
            page = stack.enter_context(Dashboard(look, host, port, record=record))
        yield page.url
