"""A series of loads on one target, and tables of their figures."""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from modelflow.cli.insight.stats_table import make_table
from modelflow.cli.terminal.progress import can_change_lines, show_live
from modelflow.insight.load.load import Load
from modelflow.insight.load.report import PERCENTS
from modelflow.table import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from modelflow.insight.load.options import LoadOptions
    from modelflow.insight.load.report import LoadReport, Sample
    from modelflow.insight.load.target import Target


def load_name(options: "LoadOptions") -> str:
    """Returns the short name of a load, such as ``200/s`` or ``8 clients``."""
    if options.rate is not None:
        return f"{options.rate:g}/s"
    return f"{options.clients} client{'s' if options.clients != 1 else ''}"


class LoadSeries:
    """A series of loads on one target, which run in order.

    Attributes:
        reports: The reports of the loads that have ended, with success or not.
    """

    def __init__(self, loads: "Sequence[LoadOptions]") -> None:
        """Takes the options of the loads, in order."""
        self._loads = loads
        self._load: Load | None = None
        self._is_stopped = False
        self._text, self._since = "", 0.0
        self.reports: list[LoadReport] = []

    def run(self, target: "Target") -> None:
        """Runs the loads on the target in order, until the last has ended or `stop` is called."""
        for options in self._loads:
            self._load = load = Load(target, options)
            span = "" if options.seconds is None else f" of {options.warm_up + options.seconds:g}"
            self._text, self._since = f"{load_name(options)}: {{:.0f}}{span} s", time.monotonic()
            if self._is_stopped:  # after `_load` is set, which `stop` reads after the flag
                return
            try:
                load.run()
            finally:
                self.reports.append(load.report())

    def stop(self) -> None:
        """Sends no more requests, and lets the requests in flight finish; for any thread."""
        self._is_stopped = True
        if self._load is not None:
            self._load.stop()

    def show(self) -> AbstractContextManager[None]:
        """Shows the progress on stderr inside the block, if stderr is a terminal."""
        if not can_change_lines():
            return nullcontext()
        return show_live(self._line, redirect_stdout=True)

    def _line(self) -> str:
        if self._load is None:
            return ""
        answered, failed = self._load.counts
        seconds = time.monotonic() - self._since
        return f"{self._text.format(seconds)}, {answered} answered, {failed} failed"


def table_of(reports: "Sequence[LoadReport]") -> "Table":
    """Returns a table with a row for each load."""
    marks = [f"p{percent:g}" for percent in PERCENTS]
    counts = ("offered/s", "answered/s", "ok", "failed")
    heads = ("load", *counts, "mean", *marks, "max", "sent late p99")
    table = make_table(heads, left=("load",))
    for report in reports:
        table.add_row(
            load_name(report.options),
            f"{report.offered:.1f}",
            f"{report.rate:.1f}",
            str(report.ok),
            str(report.count - report.ok),
            *_times(report.latency),
            time_text(report.late.percentile(99)) if len(report.late) else "-",
        )
    return table


def seconds_table_of(report: "LoadReport") -> "Table":
    """Returns a table with a row for each second of a load."""
    heads = (f"{load_name(report.options)}: s", "due", "answered/s", "failed", "p50", "p99")
    table = make_table(heads)
    for second in report.curve:
        has_times = second.due > second.failed
        table.add_row(
            str(second.second),
            str(second.due),
            f"{second.rate:.1f}",
            str(second.failed),
            time_text(second.p50) if has_times else "-",
            time_text(second.p99) if has_times else "-",
        )
    return table


def notes_of(reports: "Sequence[LoadReport]") -> "Iterator[str]":
    """Yields a line for each load with failed requests: their number by outcome."""
    for report in reports:
        if report.failures:
            found = ", ".join(f"{count} {name}" for name, count in report.failures.items())
            yield f"{load_name(report.options)}: not answered well: {found}"


def warnings_of(reports: "Sequence[LoadReport]") -> "Iterator[str]":
    """Yields a warning for each load whose figures the client itself has distorted."""
    for report in reports:
        if not report.is_client_limited:
            continue
        name = load_name(report.options)
        if report.options.rate is None:
            yield (
                f"{name}: the client itself took {time_text(report.late.mean)} on average to send "
                f"the next request (mean latency {time_text(report.latency.mean)}); the target may "
                "be able to answer more"
            )
        else:
            yield (
                f"{name}: the client itself was late. 1 % of the requests were sent "
                f"{time_text(report.late.percentile(99))} or more after they were due (median "
                f"latency {time_text(report.latency.percentile(50))}). The latencies are not the "
                "target's alone"
            )


def _times(sample: "Sample") -> list[str]:
    if not len(sample):
        return ["-"] * (len(PERCENTS) + 2)
    marks = [sample.percentile(percent) for percent in PERCENTS]
    return [time_text(seconds) for seconds in (sample.mean, *marks, sample.max)]
