"""The progress of commands: lines that change on a terminal, a line every 30 seconds elsewhere.

A terminal with ``TERM=dumb`` cannot move its cursor, and gets plain lines too.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from modelflow.cli.terminal.messages import is_dumb, wrap
from modelflow.quantities import count_of
from modelflow.signals import Undisturbed

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from modelflow.job.job import Job, JobResult


# Seconds between lines if stderr is no terminal.
_SELDOM = 30.0
# Seconds after which a start that still loads is shown: on a terminal, and elsewhere.
_SLOW, _VERY_SLOW = 0.5, 10.0
_MOST_NAMES = 3


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


def can_change_lines() -> bool:
    """Returns whether stderr is a terminal whose last lines can be changed."""
    return sys.stderr.isatty() and not is_dumb()


def progress(line: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """Shows the progress of a run on stderr inside the block.

    Args:
        line: Returns the text to show.
    """
    if not can_change_lines():
        return _on_thread(_echo_seldom, line)
    return show_live(line, redirect_stdout=sys.stdout.isatty())  # units may print


def show_opening(
    opening: Callable[[], Sequence[str]],
) -> contextlib.AbstractContextManager[None]:
    """Shows the nodes that load or open inside the block, if that takes long.

    Args:
        opening: Returns the nodes, with their units.
    """
    since = time.monotonic()

    def line() -> str:
        names = opening()
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        shown = ", ".join(names[:_MOST_NAMES]) or "the units"
        return f"loading {shown}{more} ... {time.monotonic() - since:.0f} s"

    return show_if_slow(line)


def show_if_slow(line: Callable[[], str]) -> contextlib.AbstractContextManager[None]:
    """Shows a line on stderr inside the block, if the block takes long.

    Args:
        line: Returns the text to show, which changes on a terminal.
    """
    return Undisturbed(_on_thread(_show_if_slow, line))


class _Display:
    """The changing lines at the end of the terminal: a line for each block of `show_live`.

    Several flows may start at once, or a flow may start inside a block with a progress.
    """

    def __init__(self) -> None:
        self._lines: list[Callable[[], str]] = []
        self._lock = threading.Lock()
        self._live: Live | None = None

    def add(self, line: Callable[[], str], *, redirect_stdout: bool) -> None:
        """Adds a line, and begins to show the lines before the first of them."""
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            self._lines.append(line)
            if self._live is None:
                self._live = Live(
                    console=Console(stderr=True),
                    get_renderable=self._text,
                    refresh_per_second=4,
                    transient=True,
                    redirect_stdout=redirect_stdout,
                )
                self._live.start()

    def remove(self, line: Callable[[], str]) -> None:
        """Removes a line."""
        with self._lock:
            self._lines.remove(line)
            if not self._lines and self._live is not None:
                self._live.stop()
                self._live = None

    def _text(self) -> "Text":
        from rich.text import Text

        return Text("\n".join(line() for line in tuple(self._lines)))


_display = _Display()


@contextlib.contextmanager
def show_live(line: Callable[[], str], *, redirect_stdout: bool = False) -> Iterator[None]:
    """Shows a changing line on stderr, which must be a terminal, inside the block.

    Args:
        line: Returns the text to show.
        redirect_stdout: Whether output of the block is printed above the line.
    """
    _display.add(line, redirect_stdout=redirect_stdout)
    try:
        yield
    finally:
        _display.remove(line)


@contextlib.contextmanager
def _on_thread(
    show: Callable[[Callable[[], str], threading.Event], None], line: Callable[[], str]
) -> Iterator[None]:
    """Calls a function on a thread inside the block; the event is set at the end of the block."""
    over = threading.Event()
    thread = threading.Thread(target=show, args=(line, over), name="modelflow-cli/progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _echo_seldom(line: Callable[[], str], over: threading.Event) -> None:
    while not over.wait(_SELDOM):
        click.echo(wrap(line(), sys.stderr), err=True)


def _show_if_slow(line: Callable[[], str], over: threading.Event) -> None:
    if not can_change_lines():
        if not over.wait(_VERY_SLOW):
            click.echo(wrap(line(), sys.stderr), err=True)
    elif not over.wait(_SLOW):
        with show_live(line):
            over.wait()
