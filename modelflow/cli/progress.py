"""Progress on a terminal: items, rate, errors. Nothing in a pipe."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow

__all__ = ["progress"]


@contextlib.contextmanager
def progress(flow: "Flow", writer: "ResultWriter") -> Iterator[None]:
    """Shows on stderr how far a run is, while the block runs; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    start = time.perf_counter()

    def line() -> Text:
        stats = flow.stats().values()
        items = writer.items or max((node.buffers for node in stats), default=0)
        errors = sum(node.errors for node in stats)
        seconds = time.perf_counter() - start
        busiest = max(stats, key=lambda node: node.queue, default=None)
        waiting = f", {busiest.queue} wait for {busiest.node}" if busiest and busiest.queue else ""
        rate = items / seconds if seconds else 0.0
        return Text(f"{items} items, {rate:.1f} items/s, {errors} errors{waiting}")

    console = Console(stderr=True)
    with Live(console=console, get_renderable=line, refresh_per_second=4, transient=True):
        yield
