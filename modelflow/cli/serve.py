"""``modelflow serve``: puts graphs on the network."""

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from modelflow.cli.termination import TERMINATED, termination
from modelflow.config.override import parse_assignment
from modelflow.errors import ConfigError

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.serve.server import Server

__all__ = ["serve"]


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="[NAME=]GRAPH...")
@click.option(
    "--http",
    default="127.0.0.1:8501",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to answer over HTTP; port 0: any that is free. Other machines reach it only at an "
    "address of the network, or 0.0.0.0.",
)
@click.option(
    "--grpc",
    default="127.0.0.1:8500",
    show_default=True,
    metavar="HOST:PORT|off",
    help="Where to answer over gRPC; port 0: any that is free.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NODE.KEY=VALUE",
    help="Changes an attribute of a node of every graph. May be repeated.",
)
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="A value for [args.NAME].")
@click.option(
    "--max-requests",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Most requests to one model that have no answer yet; one more is answered 503.",
)
@click.option(
    "--max-body",
    type=click.IntRange(0),
    default=64 << 20,
    show_default=True,
    help="The longest body in bytes; a longer one is answered 413.",
)
@click.option(
    "--drain-timeout",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds within which SIGTERM lets the requests under way be answered.",
)
def serve(  # noqa: PLR0913 - an option each
    sources: tuple[str, ...],
    http: str,
    grpc: str,
    overrides: tuple[str, ...],
    args: tuple[str, ...],
    max_requests: int,
    max_body: int,
    drain_timeout: float,
) -> int:
    """Serves graphs to the clients of TensorFlow Serving and Open Inference, HTTP and gRPC.

    A graph is a model: its inputs are the model's inputs, its outputs the outputs, each item of a
    request a buffer. Ctrl-C ends it at once; SIGTERM lets it answer what it has taken on.

    \b
    modelflow serve graph.toml
    modelflow serve digits=graphs/digits.toml --http 127.0.0.1:8501
    curl -d '{"instances": [1.0, 2.0]}' http://127.0.0.1:8501/v1/models/graph:predict
    """
    from modelflow.serve.server import ServeOptions, Server

    host, port = _address("--http", http)
    grpc_host, grpc_port = _grpc_address(grpc)
    flows = {name: _flow(path, overrides, args) for name, path in map(_named, sources)}
    if len(flows) < len(sources):
        message = "two graphs have the same name; give one another: NAME=GRAPH"
        raise click.UsageError(message)
    options = ServeOptions(
        host=host,
        http_port=port,
        grpc_host=grpc_host,
        grpc_port=grpc_port,
        max_requests=max_requests,
        max_body=max_body,
        drain_timeout=drain_timeout,
    )
    server = Server(flows, options)
    asked, ended = threading.Event(), threading.Event()

    def finish() -> None:
        server.stop()
        ended.set()

    try:
        with termination(asked, finish):
            _answer(server, ended)
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt
    return TERMINATED


def _answer(server: "Server", ended: threading.Event) -> None:
    """Answers requests until somebody ends it."""
    try:
        _start(server)
        names = ", ".join(server.models)
        click.echo(f"serves {names} at {server.address}", err=True)
        if server.grpc_address:
            click.echo(f"serves {names} over gRPC at {server.grpc_address}", err=True)
        ended.wait()
    finally:
        server.stop(drain=False)


def _start(server: "Server") -> None:
    try:
        server.start()
    except OSError as error:
        where = error.strerror or str(error)
        message = f"{where}; give another address: --http HOST:PORT, --grpc HOST:PORT"
        raise click.ClickException(message) from error


def _named(source: str) -> tuple[str, Path]:
    """Reads ``NAME=PATH``, or ``PATH``: then the file's name without its end is the name."""
    name, mark, path = source.partition("=")
    if not mark:
        return Path(source).stem, Path(source)
    if not name or not path:
        message = f"got {source!r}; expected NAME=GRAPH, as in digits=graphs/digits.toml"
        raise click.UsageError(message)
    return name, Path(path)


def _flow(path: Path, overrides: tuple[str, ...], args: tuple[str, ...]) -> "Flow":
    from modelflow.flow import Flow

    return Flow(path, overrides=_pairs("--set", overrides), args=_pairs("--arg", args))


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    try:
        return dict(map(parse_assignment, texts))
    except ConfigError as error:
        message = f"{option}: {error}"
        raise click.UsageError(message) from error


def _grpc_address(text: str) -> tuple[str, int | None]:
    """Reads ``--grpc``; no port: it is off, as it is where nobody asks and it is not installed."""
    if text == "off":
        return "", None
    context = click.get_current_context()
    is_asked = context.get_parameter_source("grpc") is not ParameterSource.DEFAULT
    if not is_asked and find_spec("grpc") is None:
        click.echo("gRPC is off: it needs the package grpcio (--grpc off)", err=True)
        return "", None
    return _address("--grpc", text)


def _address(option: str, text: str) -> tuple[str, int]:
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isdecimal() or int(port) > 65_535:
        message = f"{option}: got {text!r}; expected HOST:PORT, as in 127.0.0.1:8501"
        raise click.UsageError(message)
    return host.strip("[]"), int(port)
