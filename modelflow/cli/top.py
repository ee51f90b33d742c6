"""``modelflow top``: the figures of a running flow, again and again."""

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from modelflow.cli.figures import headline, table_console, table_of
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.profile.interval import Interval
    from modelflow.profile.snapshot import Snapshot

__all__ = ["top"]

# Bytes that a snapshot has at most: some 10 000 nodes.
_MOST = 1 << 26
_PATIENCE = 10.0


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

    URL is where 'modelflow run --metrics' answers: a port of this machine, HOST:PORT or a URL.

    \b
    modelflow run graph.toml --metrics 9100 &
    modelflow top 9100
    """
    from rich.live import Live

    from modelflow.profile.interval import Interval

    address = _address(url)
    before = _ask(address)
    console = table_console()
    with Live(console=console, auto_refresh=False, transient=False) as live:
        shown = 0
        while count is None or shown < count:
            time.sleep(interval)
            try:
                after = _ask(address)
            except ConfigError as error:
                if not shown:
                    raise
                console.print(f"the flow has ended, or answers no more: {error}")
                return 0
            _show(live, Interval.between(before.stats, after.stats))
            before, shown = after, shown + 1
    return 0


def _show(live: Any, interval: "Interval") -> None:
    from rich.console import Group
    from rich.text import Text

    found: Group = Group(Text(headline(interval)), table_of(interval))
    if live.console.is_terminal:
        live.update(found, refresh=True)
    else:
        live.console.print(found)


def _address(url: str) -> str:
    """Returns the URL of the snapshot.

    Raises:
        ConfigError: it is none.
    """
    whole = f"127.0.0.1:{url}" if url.isdecimal() else url
    whole = whole if "://" in whole else f"http://{whole}"
    parts = urlsplit(whole)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = f"{url}: expected a port, HOST:PORT or a URL that begins with http:// or https://"
        raise ConfigError(message)
    return whole if parts.path.rstrip("/") else f"{whole.rstrip('/')}/stats"


def _ask(address: str) -> "Snapshot":
    from modelflow.profile.snapshot import Snapshot

    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:
            text = answer.read(_MOST + 1)
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        message = f"{address}: no answer: {reason}"
        raise ConfigError(message) from error
    if len(text) > _MOST:
        message = f"{address}: the answer is longer than {_MOST} bytes"
        raise ConfigError(message)
    try:
        return Snapshot.read(json.loads(text))
    except (ValueError, ConfigError) as error:
        message = f"{address}: is no flow's figures: {error}"
        raise ConfigError(message) from error
