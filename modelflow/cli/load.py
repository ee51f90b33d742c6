"""``modelflow load``: puts load on a graph, or on a server, and tells what became of it."""

import contextlib
import glob
import json
import mimetypes
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.asking import is_address
from modelflow.cli.driving import check_repeatable
from modelflow.cli.feeding import feeds_of, requests_of
from modelflow.cli.graph_options import GraphChoice, graph_options
from modelflow.cli.termination import TERMINATED, termination
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.tune.load import LoadReport, Target

__all__ = ["load"]

VERSION = 1
"""The form of the document of ``--json``."""
_CONNECTIONS = 256
_MOST_FILES = 256
_MOST_BYTES = 1 << 30
# A sender that is later than this has been the limit itself.
_LATE = 0.01


@click.command()
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|GLOB",
    help="What goes into an input of a graph, in turns; as for 'modelflow run'.",
)
@click.option(
    "--body", metavar="FILE|GLOB", help="What is posted to a URL, in turns; none: GET is asked."
)
@click.option("--header", "headers", multiple=True, metavar="NAME: VALUE", help="Sent to a URL.")
@click.option("--method", default="", metavar="NAME", help="PUT, say, instead of POST or GET.")
@click.option(
    "--rate",
    "rates",
    metavar="R[,R...]",
    help="Requests a second, at random moments (Poisson), whatever is answered; each for its time.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 10_000),
    help="How many wait for their answers and send the next one then. Without --rate 8.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long.",
)
@click.option(
    "--warm-up",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Load before anything counts.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a server may take for an answer.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random moments.")
@click.option(
    "--json",
    "document",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write all of it.",
)
def load(graph: GraphChoice, **options: Any) -> int:
    """Sends requests to a graph, which runs here, or to a URL, and shows rate and latency.

    GRAPH is a graph file, or where a server answers: a URL, HOST:PORT/PATH. With --rate latency
    counts from the moment at which a request was due, so that a server that stands still is seen;
    with --clients each waits for its answer.

    The exit code is 1 where no request was answered well.

    \b
    modelflow load graph.toml --input 'photos/*.jpg' --rate 50,100,200
    modelflow load http://127.0.0.1:8501/v2/models/digit/generate --body digit.png --clients 32
    """
    from modelflow.tune.load import Load

    rates = _rates(options["rates"], options["clients"])
    asked = threading.Event()
    reports: list[tuple[str, LoadReport]] = []
    with _target(graph, options) as target:
        run = Load(target)
        with termination(asked, run.stop):
            for rate in rates:
                what = f"{rate:g}/s" if rate is not None else f"{options['clients'] or 8} clients"
                click.echo(f"{what} for {options['seconds']:g} s", err=True)
                how = {"settling": options["warm_up"]}
                if rate is not None:
                    found = run.open(rate, options["seconds"], seed=options["seed"], **how)
                else:
                    found = run.closed(options["clients"] or 8, options["seconds"], **how)
                reports.append((what, found))
                if asked.is_set():
                    break
    _show(reports)
    if options["document"] is not None:
        text = {
            "version": VERSION,
            "runs": [{"load": what, **one.document()} for what, one in reports],
        }
        Path(options["document"]).write_text(json.dumps(text, indent=1), encoding="utf-8")
    if asked.is_set():
        return TERMINATED
    return 0 if any(one.latencies for _, one in reports) else 1


def _rates(text: str | None, clients: int | None) -> "list[float | None]":
    if text is None:
        return [None]
    if clients is not None:
        message = "--rate and --clients: give one; clients wait for answers, a rate does not"
        raise click.UsageError(message)
    try:
        rates: list[float | None] = [float(part) for part in text.split(",")]
    except ValueError:
        rates = [0.0]
    if not all(rate is not None and 0 < rate <= 1e6 for rate in rates):
        message = f"--rate {text}: expected numbers above 0, at most 1000000, such as 50,100,200"
        raise click.UsageError(message)
    return rates


@contextlib.contextmanager
def _target(graph: GraphChoice, options: dict[str, Any]) -> "Iterator[Target]":
    if is_address(graph.source) or graph.source.partition("/")[0].count(":") == 1:
        with _server(graph.source, options) as server:
            yield server
        return
    for name in ("body", "headers", "method"):
        if options[name]:
            message = f"--{name.removesuffix('s')} is for a URL; {graph.source} is a graph: --input"
            raise click.UsageError(message)
    from modelflow.flow import Flow
    from modelflow.tune.flow_target import FlowTarget

    checked = graph.read()
    if not checked.inputs:
        message = (
            f"{graph.source}: has no inputs, so nothing can be sent; 'modelflow profile' runs "
            "graphs with sources"
        )
        raise ConfigError(message)
    feeds = feeds_of(options["inputs"], checked.inputs)
    check_repeatable(feeds)
    requests = requests_of(feeds)
    with Flow(checked) as flow:
        yield FlowTarget(flow, requests)


def _server(source: str, options: dict[str, Any]) -> Any:
    from modelflow.tune.http_target import HttpTarget

    if options["inputs"]:
        message = f"--input is for a graph; {source} is a URL: --body"
        raise click.UsageError(message)
    url = f"127.0.0.1:{source}" if source.isdecimal() else source
    headers = {}
    for text in options["headers"]:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            message = f"--header {text}: expected NAME: VALUE"
            raise click.UsageError(message)
        headers[name.strip()] = value.strip()
    return HttpTarget(
        url if "://" in url else f"http://{url}",
        _bodies(options["body"]),
        connections=options["clients"] or (8 if options["rates"] is None else _CONNECTIONS),
        headers=headers,
        method=options["method"].upper(),
        timeout=options["timeout"],
    )


def _bodies(what: str | None) -> "list[tuple[bytes, str]]":
    if what is None:
        return []
    paths = sorted(Path(name) for name in glob.glob(what, recursive=True) if Path(name).is_file())
    if not paths:
        message = f"--body {what}: there is no such file, and nothing fits it as a pattern"
        raise ConfigError(message)
    paths = paths[:_MOST_FILES]
    size = sum(path.stat().st_size for path in paths)
    if size > _MOST_BYTES:
        message = f"--body {what}: {size} bytes; expected at most {_MOST_BYTES}, which are kept"
        raise ConfigError(message)
    kind = partial(mimetypes.guess_type, strict=False)
    return [(path.read_bytes(), kind(path.name)[0] or "application/octet-stream") for path in paths]


def _show(reports: "Sequence[tuple[str, LoadReport]]") -> None:
    from rich.table import Table

    from modelflow.cli.figures import table_console

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("load", no_wrap=True)
    for head in ("answered /s", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "max ms"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("outcomes")
    for what, one in reports:
        marks = (f"{one.percentile(mark) * 1e3:.1f}" for mark in (50, 90, 95, 99, 100))
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(one.outcomes.items()))
        unsent = f", {one.unsent} unsent" if one.unsent else ""
        table.add_row(what, f"{one.rate:.1f}", *marks, (outcomes or "none") + unsent)
    table_console().print(table)
    for what, one in reports:
        if one.late > _LATE and one.late > 0.1 * one.percentile(50):
            text = f"note: {what}: the last 1 % were sent {one.late * 1e3:.0f} ms late or more"
            click.echo(
                f"{text}: there was no room for them, or this program was the limit", err=True
            )
