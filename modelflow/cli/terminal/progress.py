"""How far a run is: a line that changes on a terminal, one in 30 seconds elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.job.error_report import ErrorReport
    from modelflow.job.writer import ResultWriter


# Seconds between lines where nobody sees them change.
_SELDOM = 30.0


class Progress:
    """Counts what is done of a run."""

    def __init__(
        self, flow: "Flow", writer: "ResultWriter", errors: "ErrorReport", total: int | None
    ) -> None:
        """Begins now.

        Args:
            flow: It runs.
            writer: Writes its results.
            errors: Counts what failed.
            total: Inputs that are sent; None: its sources know.
        """
        self._flow = flow
        self._writer = writer
        self._errors = errors
        self._start = time.perf_counter()
        origin = flow.plan.origins.get("")
        self._is_counted = origin is not None and origin.is_counted
        self._sinks = (
            [] if origin is None else [n for n in origin.terminals if n not in origin.outputs]
        )
        self._ends = {
            name
            for each in flow.plan.origins.values()
            for name in each.terminals
            if name not in each.outputs
        }
        self._outputs = () if origin is None else origin.outputs
        self._total = total if self._is_counted else None
        self._before = min(writer.counts.values(), default=0)

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._start

    @property
    def done(self) -> int:
        """Inputs that are through; where one may become several results or none, results.

        Where nothing comes out, a result is what the last nodes were given: a frame, not a packet.
        """
        stats = self._flow.stats()
        if not self._is_counted:
            return self._writer.items or sum(stats[node].buffers for node in self._ends)
        counts = [self._writer.counts[port] - self._before for port in self._outputs]
        return min(counts + [stats[node].buffers for node in self._sinks])

    def line(self) -> str:
        """Returns how far it is: what is done, how fast, how long the rest will take."""
        done, seconds, stats = self.done, self.seconds, self._flow.stats().values()
        rate = done / seconds if seconds else 0.0
        parts = [
            items(done) if self._total is None else f"{done} of {items(self._total)}",
            f"{rate:.1f} items/s",
            _count(self._errors.count, "error"),
        ]
        if self._total is not None and 0 < done < self._total:
            parts.append(f"{_clock((self._total - done) / rate)} left")
        busiest = max(stats, key=lambda node: node.queue, default=None)
        if busiest is not None and busiest.queue:
            parts.append(f"{busiest.queue} wait for {busiest.node}")
        return ", ".join(parts)

    def summary(self) -> str:
        """Returns what the run came to."""
        done, seconds = self.done, self.seconds
        total = self._total
        through = items(done) if total in (None, done) else f"{done} of {items(total)}"
        rate = done / seconds if seconds else 0.0
        failed = _count(self._errors.count, "error")
        return f"{through}, {failed}, {seconds:.2f} s, {rate:.1f} items/s"


def items(count: int) -> str:
    """Returns ``1 item``, ``2 items``."""
    return _count(count, "item")


def _count(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _clock(seconds: float) -> str:
    """Returns ``0:07``, ``12:30``, ``3:05:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextlib.contextmanager
def progress(line: Callable[[], str]) -> Iterator[None]:
    """Shows on stderr how far a run is, while the block runs.

    Args:
        line: Gives what is shown.
    """
    with _live(line) if sys.stderr.isatty() else _lines(line):
        yield


@contextlib.contextmanager
def _live(line: Callable[[], str]) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(
        console=console,
        get_renderable=lambda: Text(line()),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
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
