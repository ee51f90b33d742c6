"""The command ``modelflow load``: sends load to a graph or a server, and prints the figures."""

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.output_files import write_output
from modelflow.cli.options.parameters import (
    Choice,
    GroupedCommand,
    declare_file,
    declare_input,
    declare_repeated,
    declare_written_file,
)
from modelflow.cli.terminal.messages import tell
from modelflow.errors import ConfigError
from modelflow.files.unix_socket import is_unix
from modelflow.signals import ExitCode, Undisturbed, termination

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from modelflow.cli.insight.load_report import LoadSeries
    from modelflow.insight.load.options import LoadOptions
    from modelflow.insight.load.target import Target


_VERSION = 1


# The options for one kind of target only, and their flags.
_OF_GRAPHS = {"inputs": "--input", "overrides": "--set", "args": "--arg"}
_OF_URLS = {"bodies": "--body", "headers": "--header", "method": "--method", "ca": "--ca"}


@click.command(cls=GroupedCommand)
@graph_options
@click.option(
    "--rate",
    "rates",
    metavar="R[,R...]",
    help="Requests a second. Each is sent when it is due, even if earlier requests are still in "
    "flight. Several rates run one after the other.",
)
@click.option(
    "--clients",
    metavar="N[,N...]",
    help="Requests in flight at any time. The next request is sent when one is answered.",
)
@click.option(
    "--seconds",
    type=float,
    help="How long each load lasts, without the warm-up.  [default: 10, or none with --requests]",
)
@click.option(
    "--warm-up",
    type=float,
    default=1.0,
    metavar="SECONDS",
    help="How long requests are sent before they are counted.",
)
@click.option("--requests", type=int, help="Maximum number of counted requests.")
@click.option(
    "--timeout", type=float, default=30.0, metavar="SECONDS", help="When a request is cancelled."
)
@click.option(
    "--max-in-flight",
    type=int,
    default=1024,
    help="With --rate: maximum number of requests in flight. Further due requests are not sent "
    "and count as shed.",
)
@click.option(
    "--arrivals",
    type=Choice(["poisson", "constant"]),
    default="poisson",
    help="With --rate: send requests at random times, or at constant intervals.",
)
@click.option("--seed", type=int, default=0, help="Seed of the random times.")
@declare_input(
    "[PORT=]FILE|DIR|GLOB|-", "Input for the graph: a request for each file, in a cycle."
)
@declare_repeated(
    "--body", "bodies", "FILE|DIR|GLOB|-", "Body for the URL: a request for each file, in a cycle."
)
@declare_repeated("--header", "headers", "NAME:VALUE", "A header of the requests.")
@click.option("--method", help="The HTTP method. Default: POST with a body, else GET.")
@declare_file("--ca", "ca", "Certificates (PEM) to trust in addition to the system's.")
@click.option("--per-second", is_flag=True, help="Also show the figures of each second.")
@declare_written_file("--json", "document", "Write all figures as JSON.")
def load(graph: GraphChoice, **given: Any) -> int:
    """Sends load to a graph or to a running server, and shows rates and latencies.

    GRAPH is a graph file or the name of a ready graph, which runs in this process. GRAPH can also
    be an http:// or https:// URL. With --rate, the latency of a request counts from the time when
    it was due, not from when it could be sent. Therefore a target that hangs does not look fast.
    Ctrl-C ends the load at once and shows the figures so far.

    The exit code is 1 if no request got a good reply.

    \b
    modelflow load graph.toml --input 'photos/*.jpg' --rate 100,200,400
    modelflow load graph.toml --input 'photos/*.jpg' --clients 32
    modelflow load http://127.0.0.1:8501/v1/models/m:predict --body one.json --rate 200
    """
    from modelflow.cli.insight.load_report import LoadSeries

    series = LoadSeries(_options_of(given))
    asked, is_interrupted = threading.Event(), False
    is_address = "://" in graph.source or is_unix(graph.source)
    with_target = _server if is_address else _flow
    try:
        with with_target(graph, given, asked, series) as target, series.show():
            series.run(target)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:  # also after a flow has failed
        _show(series, per_second=given["per_second"], document=given["document"])
    if is_interrupted:
        raise click.exceptions.Abort
    if asked.is_set():
        return ExitCode.TERMINATED
    return ExitCode.OK if any(report.ok for report in series.reports) else ExitCode.FAILED


assert isinstance(load, GroupedCommand)  # as it was declared
load.groups = {
    "For a graph": tuple(_OF_GRAPHS),
    "For a URL": tuple(_OF_URLS),
    "Output": ("per_second", "document"),
}


@contextlib.contextmanager
def _flow(
    graph: GraphChoice, given: dict[str, Any], asked: threading.Event, series: "LoadSeries"
) -> "Iterator[Target]":
    """Runs the graph inside the block."""
    from modelflow.cli.insight.load_inputs import rows_of

    _refuse(given, _OF_URLS, f"{graph.source} is no URL", "URLs")
    checked = graph.read()
    if not checked.inputs:
        raise ConfigError(
            f"{graph.source}: has no inputs, so no requests can be sent; 'modelflow profile' runs "
            "a graph with sources and tells how fast it is"
        )
    rows = rows_of(given["inputs"], checked.inputs)
    from modelflow.flow import Flow
    from modelflow.insight.load.flow_target import FlowTarget

    flow = Flow(checked)
    with termination(asked, series.stop), flow:
        yield FlowTarget(flow, rows)


@contextlib.contextmanager
def _server(
    graph: GraphChoice, given: dict[str, Any], asked: threading.Event, series: "LoadSeries"
) -> "Iterator[Target]":
    """Keeps connections to the server open inside the block."""
    more = {**given, "overrides": graph.overrides, "args": graph.args}
    _refuse(more, _OF_GRAPHS, f"{graph.source} is no graph", "graphs")
    from modelflow.cli.insight.load_inputs import bodies_of, headers_of
    from modelflow.insight.load.http_target import HttpTarget

    bodies, headers = bodies_of(given["bodies"]), headers_of(given["headers"])
    target = HttpTarget(
        graph.source, bodies, method=given["method"], headers=headers, ca=given["ca"]
    )
    with termination(asked, series.stop), Undisturbed(target):
        target.connect()
        yield target


def _refuse(given: "Mapping[str, Any]", words: "Mapping[str, str]", why: str, what: str) -> None:
    found = [word for name, word in words.items() if given[name]]
    if found:
        raise click.UsageError(
            f"{why}: {' and '.join(found)} {'is' if len(found) == 1 else 'are'} for {what}"
        )


def _options_of(given: dict[str, Any]) -> "list[LoadOptions]":
    """Returns the options of each load."""
    from modelflow.insight.load.options import LoadOptions

    rates, clients = given["rates"], given["clients"]
    if (rates is None) == (clients is None):
        raise click.UsageError(
            f"--rate and --clients: got {'neither' if rates is None else 'both'}; give one: "
            "clients wait for their answers, a rate does not"
        )
    seconds = given["seconds"]
    if seconds is None and given["requests"] is None:
        seconds = 10.0
    names = ("warm_up", "requests", "timeout", "max_in_flight", "arrivals", "seed")
    more: dict[str, Any] = {"seconds": seconds, **{name: given[name] for name in names}}
    try:
        if clients is not None:
            return [LoadOptions(clients=n, **more) for n in _numbers("--clients", clients, int)]
        return [LoadOptions(rate=rate, **more) for rate in _numbers("--rate", rates, float)]
    except ValueError as error:
        name, colon, text = str(error).partition(":")
        words = " and ".join(f"--{word.replace('_', '-')}" for word in name.split(" and "))
        raise click.UsageError(words + colon + text) from error


def _numbers(option: str, text: str, kind: type) -> list[Any]:
    found = []
    for part in text.split(","):
        try:
            found.append(kind(part))
        except ValueError as error:
            example = "100 or 100,200,400" if kind is float else "8 or 1,8,64"
            raise click.UsageError(
                f"{option} {text}: got {part.strip()!r}; expected {example}"
            ) from error
    return found


def _show(series: "LoadSeries", *, per_second: bool, document: str | None) -> None:
    from modelflow.cli.insight.load_report import notes_of, seconds_table_of, table_of, warnings_of
    from modelflow.cli.insight.stats_table import table_console

    reports = series.reports
    if reports:
        console = table_console()
        click.echo(reports[0].target)
        console.print(table_of(reports))
        for report in reports if per_second else ():
            console.print(seconds_table_of(report))
        for line in notes_of(reports):
            click.echo(line)
        for line in warnings_of(reports):
            tell("warning", line)
    if document is not None and reports:
        found = {"version": _VERSION, "loads": [report.document() for report in reports]}
        write_output("--json", document, json.dumps(found, indent=1).encode())
