"""The progress of a run: a line that changes on a terminal, a line every 30 seconds elsewhere."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from modelflow.quantities import count_of

if TYPE_CHECKING:
    from modelflow.job.job import Job, JobResult


# Seconds between lines if stderr is no terminal.
_SELDOM = 30.0


def describe_progress(job: "Job") -> str:
    """Returns the progress of a job: finished items, rate, errors, remaining time."""
    result, stats = job.result, job.flow.stats().values()
    done, total, seconds = result.items, result.total, result.seconds
    rate = done / seconds if seconds else 0.0
    parts = [
        count_of(done, "item") if total is None else f"{done} of {count_of(total, 'item')}",
        f"{rate:.1f} items/s",
        count_of(result.errors, "error"),
    ]
    if total is not None and 0 < done < total:
        parts.append(f"{_clock((total - done) / rate)} left")
    busiest = max(stats, key=lambda node: node.queue, default=None)
    if busiest is not None and busiest.queue:
        parts.append(f"{busiest.queue} wait for {busiest.node}")
    return ", ".join(parts)


def describe_result(result: "JobResult") -> str:
    """Returns the result of a job: items, errors, seconds and rate."""
    done, total, seconds = result.items, result.total, result.seconds
    items = count_of(done if total is None else total, "item")
    through = items if total in (None, done) else f"{done} of {items}"
    rate = done / seconds if seconds else 0.0
    before = result.errors_before
    earlier = f"; {count_of(before, 'error')} in earlier runs" if before else ""
    errors = count_of(result.errors, "error")
    return f"{through}, {errors}, {seconds:.2f} s, {rate:.1f} items/s{earlier}"


def _clock(seconds: float) -> str:
    """Returns ``0:07``, ``12:30``, ``3:05:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def progress(line: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """Shows the progress of a run on stderr inside the block.

    Args:
        line: Returns the text to show.
    """
    return show_live(line) if sys.stderr.isatty() else _lines(line)


@contextlib.contextmanager
def show_live(line: Callable[[], str], *, redirect_stdout: bool = False) -> Iterator[None]:
    """Shows a changing line on stderr, which must be a terminal, inside the block.

    Args:
        line: Returns the text to show.
        redirect_stdout: Whether output of the block is printed above the line.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(
        console=console,
        get_renderable=lambda: Text(line()),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=redirect_stdout,
    ):
        yield


@contextlib.contextmanager
def _lines(line: Callable[[], str]) -> Iterator[None]:
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_SELDOM):
            click.echo(line(), err=True)

    thread = threading.Thread(target=tell, name="modelflow-cli/progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
