"""``modelflow run``: feeds a graph, writes its results, counts its errors."""

import collections
import contextlib
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from modelflow.cli.graph_options import GraphChoice, graph_options
from modelflow.cli.running import Run
from modelflow.cli.termination import TERMINATED, termination
from modelflow.errors import FlowFailed, FlowUnitError, StreamClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelflow.cli.window import Window
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow
    from modelflow.stream_io import StreamIO

__all__ = ["run"]


@click.command()
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|GLOB|-",
    help="What goes into an input of the graph: a buffer a file; '-': standard input.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|-",
    help="Where an output's results go: JSON lines into a file or (without this) to standard "
    "output; into a folder a file a result (an image as PNG).",
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 even if there were errors.")
@click.option("--sync", is_flag=True, help="Run everything on one thread, for debugging.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Record what every worker does, for ui.perfetto.dev: t.json, or t.json.gz.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Answer http://HOST:PORT/metrics for Prometheus and /stats for 'modelflow top' while it "
    "runs; 127.0.0.1 unless a host is given.",
)
def run(  # noqa: PLR0913 - each is an option
    graph: GraphChoice,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    keep_going: bool,
    sync: bool,
    trace: str | None,
    metrics: str | None,
) -> int:
    """Runs a graph: a file, or the name of one that comes with modelflow.

    A graph with inputs is fed by --input; one with sources runs until they are done, or Ctrl-C,
    which ends it at once; SIGTERM lets it finish what it has taken on. An
    item that fails becomes an error line in its place; the others go on, and the exit code is 1.

    \b
    modelflow run graphs/digits.toml
    modelflow run graph.toml --input 'input=photos/*.jpg' --output output=out/
    cat a.jpg | modelflow run graph.toml --input - --set 'infer.device=cpu'
    """
    from modelflow.cli.feeding import feeds_of
    from modelflow.cli.progress import progress
    from modelflow.cli.writing import ResultWriter
    from modelflow.flow import Flow

    checked = graph.read()
    for note in checked.notes:
        click.echo(f"note: {note}", err=True)
    feeds = feeds_of(inputs, checked.inputs)
    writer = ResultWriter(outputs, checked.outputs)
    # Built before a signal may come: only what is there can be stopped.
    flow = Flow(checked, threads=0 if sync else None).build()
    start = time.perf_counter()
    finish = None if sync else partial(_finish, flow)
    asked = threading.Event()
    try:
        # Around the start as well: a server is sent signals from the moment in which it listens.
        with (
            contextlib.nullcontext() if metrics is None else _window(metrics, flow),
            contextlib.nullcontext() if trace is None else flow.record(trace),
            termination(asked, finish),
            flow,
            progress(flow, writer),
        ):
            runner = Run(flow, feeds, writer.write)
            if sync:
                runner.inline()
            else:
                runner.threaded()
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt
    except StreamClosed:
        if asked.is_set():
            return TERMINATED  # before there was anything to finish
        raise
    finally:
        writer.close()
    # Only now that the flow has been left: leaving it finishes what is still under way.
    code = _summary(flow, writer, runner.streams, time.perf_counter() - start, keep_going)
    return TERMINATED if asked.is_set() else code


def _window(address: str, flow: "Flow") -> "Window":
    from modelflow.cli.window import Window

    window = Window(address, flow.stats, flow.snapshot)
    click.echo(f"metrics: {window.url}/metrics, figures: {window.url}/stats", err=True)
    return window


def _finish(flow: "Flow") -> None:
    """Has the flow take on nothing more and finish what is under way; from any thread."""
    with contextlib.suppress(FlowFailed):  # it is raised again where the flow is left
        flow.stop()


def _summary(
    flow: "Flow",
    writer: "ResultWriter",
    streams: "Sequence[StreamIO]",
    seconds: float,
    keep_going: bool,
) -> int:
    stats = flow.stats().values()
    items = writer.items or max((node.buffers for node in stats), default=0)
    at_sinks = sum(stream.error_count for stream in streams)
    errors = writer.errors + at_sinks
    kept = collections.Counter(_told(error) for stream in streams for error in stream.errors)
    for text, count in kept.items():
        click.echo(f"error: {text}" + (f" ({count} times)" if count > 1 else ""), err=True)
    if at_sinks > kept.total():
        click.echo(f"error: and {at_sinks - kept.total()} more", err=True)
    rate = items / seconds if seconds else 0.0
    click.echo(
        f"{items} items, {errors} errors, {seconds:.2f} s, {rate:.1f} items/s",
        err=True,
    )
    sys.stdout.flush()
    return 1 if errors and not keep_going else 0


def _told(error: Exception) -> str:
    """What an error says, and the line of the user's code that raised it."""
    where = error.where if isinstance(error, FlowUnitError) else ""
    return f"{error} ({where})" if where else str(error)
