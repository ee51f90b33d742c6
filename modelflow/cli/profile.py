"""``modelflow profile``: runs a graph and tells where its time goes."""

import contextlib
import itertools
import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelflow.cli.figures import headline, table_console, table_of
from modelflow.cli.graph_options import GraphChoice, graph_options
from modelflow.cli.running import Run
from modelflow.cli.termination import TERMINATED, termination
from modelflow.errors import FlowFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.buffer import Buffer
    from modelflow.cli.feeding import Feed
    from modelflow.flow import Flow

__all__ = ["profile"]


@click.command()
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|GLOB|-",
    help="What goes into an input of the graph, again and again; as for 'modelflow run'.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long; a graph with sources may be done before.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Record what every worker does, for ui.perfetto.dev: t.json, or t.json.gz.",
)
@click.option(
    "--json",
    "document",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write all figures, with the plan and the machine.",
)
def profile(
    graph: GraphChoice,
    inputs: tuple[str, ...],
    seconds: float,
    trace: str | None,
    document: str | None,
) -> int:
    """Runs a graph for a while and shows what each node's workers did with their time.

    The inputs are sent over and over, as fast as they are taken; the results are thrown away.
    Models are loaded and warmed up before the clock starts. Ctrl-C ends it and shows what there is.

    \b
    busy      in the unit               starved   nothing to do
    blocked   no room behind the node   order     others had to go first

    \b
    modelflow profile graph.toml --input 'photos/*.jpg' --trace trace.json.gz
    """
    from modelflow.cli.feeding import feeds_of
    from modelflow.flow import Flow
    from modelflow.profile.interval import Interval

    checked = graph.read()
    feeds = feeds_of(inputs, checked.inputs)
    if any(feed.is_stdin for feed in feeds):
        message = (
            "--input -: the inputs are sent over and over, and standard input can be read once"
        )
        raise click.UsageError(message)
    flow = Flow(checked).build()
    asked = threading.Event()
    recording = contextlib.nullcontext() if trace is None else flow.record(trace, requests=1)
    before, is_interrupted = flow.stats(), False
    try:
        with recording, termination(asked, partial(_finish, flow)), flow:
            before = flow.stats()
            _use(flow, feeds, seconds)
    except KeyboardInterrupt:
        is_interrupted = True
    after = flow.stats()
    interval = Interval.between(before, after)
    click.echo(headline(interval))
    table_console().print(table_of(interval))
    if document is not None:
        text = json.dumps(flow.snapshot(), indent=1)
        Path(document).write_text(text, encoding="utf-8")
    if is_interrupted:
        raise click.exceptions.Abort
    return TERMINATED if asked.is_set() else 0


def _finish(flow: "Flow") -> None:
    with contextlib.suppress(FlowFailed):  # it is raised again where the flow is left
        flow.stop()


def _use(flow: "Flow", feeds: "Sequence[Feed]", seconds: float) -> None:
    """Feeds the flow for so many seconds, or lets its sources run."""
    end = time.monotonic() + seconds
    if feeds:
        Run(flow, [_repeated(feed, end) for feed in feeds], _drop).threaded()
        return
    over = threading.Event()

    def stop_in_time() -> None:
        if not over.wait(seconds):
            flow.request_stop()

    waiter = threading.Thread(target=stop_in_time, name="modelflow-cli/time")
    waiter.start()
    try:
        Run(flow, [], _drop).threaded()
    finally:
        over.set()
        waiter.join()


def _drop(output: str, buffer: "Buffer") -> None:
    """Does nothing with a result."""


def _repeated(feed: "Feed", end: float) -> "Feed":
    """Returns a feed that begins anew until a moment has come."""
    from modelflow.cli.feeding import Feed

    class Repeated(Feed):
        def __init__(self) -> None:
            self.port, self.count = feed.port, feed.count

        def __iter__(self) -> "Iterator[Buffer]":
            while time.monotonic() < end:
                yield from itertools.takewhile(lambda _: time.monotonic() < end, feed)

    return Repeated()
