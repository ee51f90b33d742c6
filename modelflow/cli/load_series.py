"""Loads on one target, one after the other, as ``modelflow load`` runs them."""

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from modelflow.load.load import Load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.load.options import LoadOptions
    from modelflow.load.report import LoadReport
    from modelflow.load.target import Target

__all__ = ["LoadSeries", "load_name"]


def load_name(options: "LoadOptions") -> str:
    """Returns what load is wanted, in short."""
    if options.rate is not None:
        return f"{options.rate:g}/s"
    return f"{options.clients} client{'s' if options.clients != 1 else ''}"


class LoadSeries:
    """Several loads.

    Attributes:
        reports: Of those that have ended, however.
    """

    def __init__(self, loads: "Sequence[LoadOptions]") -> None:
        """Takes what loads are wanted, in order."""
        self._loads = loads
        self._load: Load | None = None
        self._is_stopped = False
        self._text, self._since = "", 0.0
        self.reports: list[LoadReport] = []

    def run(self, target: "Target") -> None:
        """Puts one after the other on the target, until all have been or `stop` is called."""
        for options in self._loads:
            self._load = load = Load(target, options)
            span = "" if options.seconds is None else f" of {options.warm_up + options.seconds:g}"
            self._text, self._since = f"{load_name(options)}: {{:.0f}}{span} s", time.monotonic()
            if self._is_stopped:  # looked at behind the assignment, which `stop` looks at
                return
            try:
                load.run()
            finally:
                self.reports.append(load.report())

    def stop(self) -> None:
        """Sends nothing more, and has what is under way finished; from any thread."""
        self._is_stopped = True
        if self._load is not None:
            self._load.stop()

    @contextlib.contextmanager
    def shown(self) -> "Iterator[None]":
        """Shows on stderr how far it is, while the block runs; nothing in a pipe."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True)
        with Live(
            console=console,
            get_renderable=lambda: Text(self._line()),
            refresh_per_second=4,
            transient=True,
        ):
            yield

    def _line(self) -> str:
        if self._load is None:
            return ""
        answered, failed = self._load.counts
        seconds = time.monotonic() - self._since
        return f"{self._text.format(seconds)}, {answered} answered, {failed} failed"
