"""The command ``modelflow profile``: runs a graph and shows where the time is spent."""

import contextlib
import json
import threading
from functools import partial
from pathlib import Path

import click

from modelflow.cli.insight.drive import Drive, check_repeatable, stop_flow
from modelflow.cli.insight.stats_table import show_stats, table_console
from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.output_files import write_output
from modelflow.cli.options.parameters import FiniteRange, declare_input, declare_written_file
from modelflow.cli.terminal.progress import progress
from modelflow.errors import ConfigError
from modelflow.signals import ExitCode, Undisturbed, termination


@click.command()
@graph_options
@declare_input(
    "[PORT=]FILE|DIR|GLOB|-",
    "Input for the graph, sent repeatedly. See 'modelflow run'.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0, min_open=True, max=86_400),
    default=10.0,
    help="How long to run. A graph with sources may end earlier.",
)
@declare_written_file(
    "--trace", "trace", "Record the work of every worker for ui.perfetto.dev: t.json or t.json.gz."
)
@declare_written_file("--json", "document", "Write all figures, with the plan and the machine.")
def profile(
    graph: GraphChoice,
    inputs: tuple[str, ...],
    seconds: float,
    trace: str | None,
    document: str | None,
) -> int:
    """Runs a graph for some time and shows how each node's workers spent the time.

    The inputs are sent repeatedly, as fast as the graph takes them. The results are discarded.
    Models are loaded and warmed up before the clock starts. Ctrl-C ends the run and shows the
    figures so far.

    \b
    busy      in the unit               starved   no input
    blocked   the next queue is full    order     waits for earlier items

    \b
    modelflow profile graph.toml --input 'photos/*.jpg' --trace trace.json.gz --json profile.json
    modelflow doctor profile.json
    """
    from modelflow.flow import Flow
    from modelflow.job.inputs import feeds_of
    from modelflow.profile.interval import Interval
    from modelflow.profile.snapshot import Snapshot

    checked = graph.read()
    feeds = feeds_of(inputs, checked.inputs)
    check_repeatable(feeds)
    if document is not None and not Path(document).parent.is_dir():
        raise ConfigError(f"--json {document}: there is no folder {Path(document).parent}")
    flow = Flow(checked)
    asked = threading.Event()
    recording = contextlib.nullcontext() if trace is None else flow.record(trace, requests=1)
    before, is_interrupted = Snapshot.of_flow(flow), False
    try:
        with termination(asked, partial(stop_flow, flow)), Undisturbed(recording), flow:
            before = Snapshot.of_flow(flow)
            with progress(lambda: f"measuring for {seconds:g} s"), Drive(flow, feeds) as drive:
                drive.wait(seconds)
    except KeyboardInterrupt:
        is_interrupted = True
    after = Snapshot.of_flow(flow)
    interval = Interval.between(before.stats, after.stats)
    console = table_console()
    console.print(show_stats(interval, console.width))
    if document is not None:
        text = json.dumps({**after.document(), "before": before.document()}, indent=1)
        write_output("--json", document, text.encode())
    if is_interrupted:
        raise click.exceptions.Abort
    return ExitCode.TERMINATED if asked.is_set() else ExitCode.OK
