"""``modelflow serve``: puts graphs and models on the network."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.serve_settings import ServeCommand, serve_options, settings
from modelflow.cli.settings_file import config_option, configured
from modelflow.cli.sources import catalogue_of
from modelflow.cli.termination import TERMINATED, on_hangup, termination
from modelflow.errors import Cancelled, FlowFailed, ModelflowError
from modelflow.serve.grpc.kind import GrpcKind, can_serve

if TYPE_CHECKING:
    from modelflow.serve.catalogue import Catalogue
    from modelflow.serve.server import Server

__all__ = ["serve"]

# Seconds after which a thread that wants Python's lock gets it from another that computes. With
# the usual 0.005 a unit whose batch is done waits so long for the thread that reads requests,
# where there are more than can be answered (benchmarks/serving_overload.py).
_SWITCH = 0.001


@click.command(cls=ServeCommand)
@click.argument("sources", nargs=-1, metavar="[NAME=]SOURCE...")
@config_option
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
    "--grpc-server",
    type=click.Choice([kind.value for kind in GrpcKind]),
    default=GrpcKind.AUTO.value,
    show_default=True,
    help="What answers gRPC: native, on zttp, costs a fraction of grpcio a call; auto takes it "
    "where it is installed.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NODE.KEY=VALUE",
    help="Changes an attribute of a node of every graph; the node of a model is called model. May "
    "be repeated.",
)
@click.option("--arg", "args", multiple=True, metavar="NAME=VALUE", help="A value for [args.NAME].")
@click.option(
    "--drain-timeout",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds within which SIGTERM lets the requests under way be answered.",
)
@click.option(
    "--versions",
    default="latest",
    show_default=True,
    metavar="latest|all|N,M",
    help="Which versions of a folder that holds some (1/ 2/ ...) are served.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME:LABEL=VERSION",
    help="A name for a version, for clients that ask for it: digits:stable=2. May be repeated.",
)
@click.option(
    "--model-config-file",
    "config_file",
    type=click.Path(path_type=Path),
    help="A models.config of TensorFlow Serving: names, paths, versions and labels.",
)
@click.option(
    "--batching-parameters-file",
    "batching_file",
    type=click.Path(path_type=Path),
    help="A batching_config.txt of TensorFlow Serving, for models that are no graphs.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it looks for new versions and models; 0: only at SIGHUP.",
)
@click.option(
    "--allow-repository",
    is_flag=True,
    help="Lets clients load and unload models: POST /v2/repository/models/NAME/load.",
)
@click.option(
    "--describe",
    "is_described",
    is_flag=True,
    help="Prints what clients will see of each model, with a call to try, and ends.",
)
@serve_options
def serve(  # noqa: PLR0913 - an option each
    sources: tuple[str, ...],
    http: str,
    grpc: str,
    grpc_server: str,
    overrides: tuple[str, ...],
    args: tuple[str, ...],
    drain_timeout: float,
    versions: str,
    labels: tuple[str, ...],
    config_file: Path | None,
    batching_file: Path | None,
    poll: float,
    allow_repository: bool,
    is_described: bool,
    **found: Any,
) -> int:
    """Serves graphs and models to the clients of TensorFlow Serving and Open Inference.

    Over HTTP, and over gRPC where that is installed.

    A SOURCE is a graph file, a model, a folder with versions of one (1/ 2/ ...), or a folder of
    those. A graph is a model: its inputs are the model's inputs, its outputs the outputs, each item
    of a request a buffer. Ctrl-C ends it at once; SIGTERM lets it answer what it has taken on;
    SIGHUP has it look for new versions, which take over without a request that fails, read the API
    keys again, and open the access log anew.

    \b
    modelflow serve graph.toml
    modelflow serve digits=graphs/digits.toml resnet50.onnx ./models --poll 10
    curl -d '{"instances": [1.0, 2.0]}' http://127.0.0.1:8501/v1/models/graph:predict
    """
    from modelflow.serve.server import ServeOptions, Server

    sources = sources or configured("sources")
    host, port = _address("--http", http)
    grpc_host, grpc_port = _grpc_address(grpc)
    if not sources and config_file is None:
        message = "Missing argument '[NAME=]SOURCE...': a graph or a model, or --model-config-file"
        raise click.UsageError(message)
    catalogue = catalogue_of(
        sources,
        overrides=overrides,
        args=args,
        versions=versions,
        labels=labels,
        config_file=config_file,
        batching_file=batching_file,
    )
    if is_described:
        return _describe(catalogue, f"{'http' if found['tls_cert'] is None else 'https'}://{http}")
    options = ServeOptions(
        host=host,
        http_port=port,
        grpc_host=grpc_host,
        grpc_port=grpc_port,
        grpc_server=GrpcKind(grpc_server),
        drain_timeout=drain_timeout,
        poll=poll,
        is_repository_open=allow_repository,
        **settings(found),
    )
    return _run(Server(catalogue, options))


def _run(server: "Server") -> int:
    """Serves until somebody ends it."""
    asked, ended = threading.Event(), threading.Event()

    def finish() -> None:
        try:
            server.stop()
        finally:
            ended.set()

    try:
        with _switching(), termination(asked, finish), on_hangup(server.refresh):
            _answer(server, asked, ended)
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt
    return TERMINATED


@contextlib.contextmanager
def _switching() -> Iterator[None]:
    """Lets no thread wait long for another inside the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _answer(server: "Server", asked: threading.Event, ended: threading.Event) -> None:
    """Answers requests until somebody ends it."""
    try:
        try:
            _start(server)
        except Cancelled:
            if not asked.is_set():
                raise
        else:
            names = ", ".join(server.models) or "nothing yet"
            click.echo(f"serves {names} at {server.address}", err=True)
            if server.grpc_address:
                click.echo(f"serves {names} over gRPC at {server.grpc_address}", err=True)
        ended.wait()
    finally:
        server.stop(drain=False)


def _start(server: "Server") -> None:
    try:
        server.listen()
    except OSError as error:
        where = error.strerror or str(error)
        message = f"{where}; give another address: --http HOST:PORT, --grpc HOST:PORT"
        raise click.ClickException(message) from error
    server.wait_until_loaded()


def _describe(catalogue: "Catalogue", address: str) -> int:
    """Loads one model after another and prints what clients will see of it."""
    from modelflow.serve.description import description
    from modelflow.serve.shelf import reason_of

    catalogue.check()
    code = 0
    for name, source in catalogue.read().items():
        try:
            for edition in source.editions():
                with edition.open() as flow:
                    signature = flow.signature()
                click.echo(description(name, edition.number, signature, address))
        except (ModelflowError, FlowFailed) as error:
            click.echo(f"{name}: {reason_of(error)}", err=True)
            code = 1
    return code


def _grpc_address(text: str) -> tuple[str, int | None]:
    """Reads ``--grpc``; no port: it is off, as it is where nobody asks and it is not installed."""
    if text == "off":
        return "", None
    context = click.get_current_context()
    is_asked = context.get_parameter_source("grpc") is not ParameterSource.DEFAULT
    if not is_asked and not can_serve():
        click.echo("gRPC is off: it needs the package zttp or grpcio (--grpc off)", err=True)
        return "", None
    return _address("--grpc", text)


def _address(option: str, text: str) -> tuple[str, int]:
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isdecimal() or int(port) > 65_535:
        message = f"{option}: got {text!r}; expected HOST:PORT, as in 127.0.0.1:8501"
        raise click.UsageError(message)
    return host.strip("[]"), int(port)
