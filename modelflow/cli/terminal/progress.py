"""How far a run is: a line that changes on a terminal, one in 30 seconds elsewhere."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from modelflow.quantities import count_of

if TYPE_CHECKING:
    from modelflow.job.job import Job, JobResult


# Seconds between lines where nobody sees them change.
_SELDOM = 30.0


def describe_progress(job: "Job") -> str:
    """Returns how far a job is: what is done, how fast, how long the rest will take."""
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
    """Returns what a job came to."""
    done, total, seconds = result.items, result.total, result.seconds
    items = count_of(done if total is None else total, "item")
    through = items if total in (None, done) else f"{done} of {items}"
    rate = done / seconds if seconds else 0.0
    before = result.errors_before
    earlier = f"; {count_of(before, 'error')} in what was done before" if before else ""
    errors = count_of(result.errors, "error")
    return f"{through}, {errors}, {seconds:.2f} s, {rate:.1f} items/s{earlier}"


def _clock(seconds: float) -> str:
    """Returns ``0:07``, ``12:30``, ``3:05:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def progress(line: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """Shows on stderr how far a run is, while the block runs.

    Args:
        line: Gives what is shown.
    """
    return show_live(line) if sys.stderr.isatty() else _lines(line)


@contextlib.contextmanager
def show_live(line: Callable[[], str], *, redirect_stdout: bool = False) -> Iterator[None]:
    """Shows a line on stderr, a terminal, that changes while the block runs.

    Args:
        line: Gives it.
        redirect_stdout: What is printed inside the block stands above the line.
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
