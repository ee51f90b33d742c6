"""The command ``modelflow tune``: finds better threads and batches, and edits the graph file."""

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.insight.load_inputs import rows_of
from modelflow.cli.insight.tune_run import StoppedError, TuneRun, values_of
from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.output_files import write_output
from modelflow.cli.options.parameters import (
    FiniteRange,
    declare_input,
    declare_repeated,
    declare_written_file,
)
from modelflow.cli.terminal.messages import tell
from modelflow.errors import ConfigError, TuningError, did_you_mean
from modelflow.signals import ExitCode, termination

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from modelflow.insight.tune.tuning import TuneReport


_LATENCY = re.compile(r"(?:p(?P<percent>\d+(?:\.\d+)?)=)?(?P<time>\d+(?:\.\d+)?)(?P<unit>ms|s)")


@click.command()
@graph_options
@declare_input(
    "[PORT=]FILE|DIR|GLOB",
    "Input for the graph: one request for each file, in a cycle. See 'modelflow profile'.",
)
@click.option(
    "--latency",
    metavar="[pN=]TIME",
    help="Maximum latency of all requests, or of N % of the requests: 'p99=80ms', '1s'.",
)
@click.option(
    "--rate",
    type=FiniteRange(min=0, min_open=True, max=1e6),
    help="Requests a second, at random times. Tunes for a small latency.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 10_000),
    help="Clients that wait for their replies. Tunes for a high rate. Without --rate: 32.",
)
@declare_repeated(
    "--fix", "fixed", "NODE[.threads|.batch_size]", "A setting to keep as it is. May be repeated."
)
@declare_repeated(
    "--vary",
    "varied",
    "NODE.KEY=VALUE",
    "Also try this value of an attribute that needs a restart, such as device, "
    "intra_op_threads or allowed_batch_sizes. May be repeated; all combinations are tried.",
)
@click.option(
    "--seconds", type=FiniteRange(min=0.2, max=600), default=1.5, help="How long each trial lasts."
)
@declare_written_file("--html", "html", "Write a report page with curves.")
@click.option("--write", is_flag=True, help="Apply the shown change to the graph file.")
def tune(graph: GraphChoice, inputs: tuple[str, ...], **given: Any) -> int:
    """Finds faster settings of threads, batch sizes and queues, and shows the change.

    Each node is measured at several batch sizes, and with more threads while it limits the rate.
    Then settings are simulated, and the best is tried under real load. Each trial corrects the
    simulation, for at most 8 trials and 90 seconds. Finally the winner and the present settings run
    in alternation. The graph starts once and keeps running. With --vary each combination starts it
    once more before that. Only --write changes the file.

    The exit code is 3 if no settings keep the --latency, or answer the --rate.

    \b
    modelflow tune graph.toml --input 'photos/*.jpg' --latency p99=80ms
    modelflow tune graph.toml --input 'photos/*.jpg' --rate 200 --write
    modelflow tune graph.toml --input 'photos/*.jpg' --vary infer.intra_op_threads=1
    """
    from modelflow.insight.tune.search import Goal

    rate, clients, fixed, write = (given[name] for name in ("rate", "clients", "fixed", "write"))
    if rate is not None and clients is not None:
        raise click.UsageError(
            "--rate and --clients: give one; clients wait for answers, a rate does not"
        )
    percent, bound = (99.0, None) if given["latency"] is None else _latency(given["latency"])
    checked = graph.read()
    if write and not os.access(graph.path.resolve(), os.W_OK):
        raise ConfigError(f"--write: {graph.path} may not be written")
    if not checked.inputs:
        raise ConfigError(
            f"{graph.source}: has no inputs, so no requests can be sent; 'modelflow doctor' looks "
            "at graphs with sources"
        )
    _check_fixed(fixed, list(checked.nodes))
    rows = rows_of(inputs, checked.inputs)
    goal = Goal(percent, bound, rate)
    asked = threading.Event()
    run = TuneRun(graph, inputs, rows, goal, clients or 32, given["seconds"], frozenset(fixed))
    try:
        with termination(asked, run.stop):
            report, changes = run.run(values_of(given["varied"], graph))
    except (TuningError, StoppedError):
        if not asked.is_set():
            raise
        click.echo("stopped; nothing is changed", err=True)
        return ExitCode.TERMINATED
    _show(report)
    if graph.overrides and changes:
        tell("note", "measured with the --set options, which are not in the file")
    _tell_change(report, changes, graph.path, given["html"], is_written=write)
    return ExitCode.OK if report.nearest is None else ExitCode.FOUND


def _latency(text: str) -> tuple[float, float]:
    """Parses a bound of the latency: returns the percentile, and the bound in seconds."""
    found = _LATENCY.fullmatch(text.strip())
    percent = 99.0 if found is None or found["percent"] is None else float(found["percent"])
    if found is None or not 0 < percent < 100 or not float(found["time"]):
        raise click.UsageError(
            f"--latency {text}: expected a time as 80ms or 1.5s, or one as p95=80ms"
        )
    return percent, float(found["time"]) / (1e3 if found["unit"] == "ms" else 1.0)


def _check_fixed(fixed: "Sequence[str]", nodes: "Sequence[str]") -> None:
    for text in fixed:
        name, dot, key = text, "", ""
        if text not in nodes:
            name, dot, key = text.rpartition(".")
        if name not in nodes:
            raise click.UsageError(
                f"--fix {text}: there is no node {name or text!r}{did_you_mean(text, nodes)}"
            )
        if dot and key not in ("threads", "batch_size"):
            raise click.UsageError(f"--fix {text}: got {key!r}; expected threads or batch_size")


def _show(report: "TuneReport") -> None:
    from rich.text import Text

    from modelflow.cli.insight.stats_table import make_table, table_console
    from modelflow.insight.tune.report import summary_of

    table = make_table(("rate /s", "predicted", "p50 ms", f"p{report.goal.percent:g} ms"))
    table.add_column("settings")
    before = report.tried[0].settings
    for trial in report.tried:
        table.add_row(
            f"{trial.rate:.1f}",
            f"{trial.predicted.rate:.1f}",
            f"{trial.report.latency.percentile(50) * 1e3:.1f}",
            f"{trial.latency * 1e3:.1f}",
            Text(before.name_changes(trial.settings)),
        )
    table_console().print(table)
    click.echo(summary_of(report))
    for note in report.notes:
        tell("note", note)


def _tell_change(
    report: "TuneReport",
    changes: "Mapping[str, Any]",
    path: Path,
    html: str | None,
    *,
    is_written: bool,
) -> None:
    """Shows the change of the file, and writes the file if ``is_written``."""
    from modelflow.config.edit.patch import patch_of
    from modelflow.insight.tune.report import html_of

    before = path.read_bytes().decode()
    after, patch = patch_of(path, before, changes)
    click.echo(patch, nl=False)
    if html is not None:
        page = html_of(report, f"modelflow tune {path}", patch)
        write_output("--html", html, page.encode())
        click.echo(f"{html}: written", err=True)
    if patch and is_written:
        if path.read_bytes().decode() != before:
            raise ConfigError(f"{path}: was changed by another program; nothing is written")
        write_output("--write", str(path), after.encode())
        click.echo(f"{path}: changed", err=True)
    elif patch:
        click.echo("add --write to change the file", err=True)
