"""``modelflow top`` and ``modelflow dashboard``: a running flow in the terminal or the browser."""

import contextlib
import time
from typing import TYPE_CHECKING

import click

from modelflow.cli.insight.fetch import address_of, ask
from modelflow.cli.insight.stats_table import show_stats, table_console
from modelflow.cli.terminal.listening import show_until_the_end, split_address
from modelflow.errors import ConfigError, explain_os_error
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.live import Live

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
    help="The time between two requests. The figures are those of this time.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="How many times to show the figures. Default: until Ctrl-C, or until the flow ends.",
)
def top(url: str, interval: float, count: int | None) -> int:
    """Shows the current figures of each node of a running flow: rates, use of its workers' time,
    queues.

    URL is the address of 'modelflow run --metrics' or 'modelflow serve'. It is a port of this
    machine, HOST:PORT or a URL. For a server with several models use http://HOST:PORT/stats/MODEL.
    If the server wants an API key, put it into $MODELFLOW_API_KEY.

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
                console.print(f"the flow has ended, or does not answer any more: {error}")
                return ExitCode.OK
            _show(live, Interval.between(before.stats, after.stats))
            before, shown = after, shown + 1
    return ExitCode.OK


def _show(live: "Live", interval: "Interval") -> None:
    console = live.console
    found = show_stats(interval, console.width)
    if console.is_terminal and not console.is_dumb_terminal:
        live.update(found, refresh=True)
    else:
        console.print(found)


# Seconds until a reply must arrive; then the page shows an error. Ctrl-C waits no longer than this.
_PATIENCE = 2.0


@click.command()
@click.argument("url")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="[HOST:]PORT",
    help="The address of the page. Port 0: any free port.",
)
@click.option("--no-browser", is_flag=True, help="Print the page's address, but open no browser.")
def dashboard(url: str, listen: str, no_browser: bool) -> int:
    """Shows a running flow in the browser: its graph, rates, queues, errors and bottleneck.

    URL is the address of 'modelflow run --metrics' or 'modelflow serve'. It is a port of this
    machine, HOST:PORT or a URL. For a server with several models use http://HOST:PORT/stats/MODEL.
    If the server wants an API key, put it into $MODELFLOW_API_KEY. Ctrl-C ends the page. You can
    also see your own flow with 'modelflow run --dashboard'.

    \b
    modelflow serve graph.toml &
    modelflow dashboard 8501
    """
    address = address_of(url)
    ask(address)  # reports a wrong address here; the page alone would show it later
    with show_in_browser("--listen", listen, lambda: ask(address, _PATIENCE)) as page:
        return show_until_the_end("dashboard", page, is_opened=not no_browser)


@contextlib.contextmanager
def show_in_browser(
    option: str, address: str, look: "Callable[[], Snapshot]", record: "Record | None" = None
) -> "Iterator[str]":
    """Serves the page of a flow inside the block, and yields its URL.

    Args:
        option: The option that has the address, for messages.
        address: The address to listen on.
        look: A function that returns the current snapshot.
        record: `Flow.record`, or None if the page cannot record.

    Raises:
        click.UsageError: The address is wrong.
        ConfigError: The address is in use.
    """
    from modelflow.studio.dashboard import Dashboard

    host, port = split_address(option, address)
    with contextlib.ExitStack() as stack:
        with explain_os_error(f"{option} {address}: cannot listen there"):
            page = stack.enter_context(Dashboard(look, host, port, record=record))
        yield page.url
