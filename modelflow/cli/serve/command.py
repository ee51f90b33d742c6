"""The command ``modelflow serve``: serves graphs and models over the network."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.options.graph_options import tell_environment
from modelflow.cli.options.parameters import declare_repeated, read_size
from modelflow.cli.options.settings_file import config_option, read_setting
from modelflow.cli.options.shell_completion import complete_graph
from modelflow.cli.serve.models import add_names, build_config
from modelflow.cli.serve.on_option import (
    check_far,
    name_shared,
    on_option,
    place_config,
    share_option,
)
from modelflow.cli.serve.server_options import ServeCommand, field_options, options_given
from modelflow.cli.serve.server_setup import ServerEnd, ending, explain_errors, list_isolated, tell
from modelflow.cli.terminal.listening import split_address
from modelflow.config.override import Environment
from modelflow.errors import Cancelled, FlowFailed, ModelflowError
from modelflow.files.unix_socket import PREFIX, check_path, is_unix
from modelflow.http.options import join_address
from modelflow.serve.options import (
    CONNECTIONS,
    GUARDS,
    OPTIONS,
    REQUESTS,
    SERVED,
    GrpcKind,
    has_grpc,
)
from modelflow.signals import LAST_SECONDS, ExitCode, call_undisturbed, end_within

if TYPE_CHECKING:
    from modelflow.serve.processes.service_notifier import ServiceNotifier
    from modelflow.serve.repository.config import ServeConfig
    from modelflow.serve.server import Server


@click.command(cls=ServeCommand)
@click.argument("sources", nargs=-1, metavar="[NAME=]SOURCE...", shell_complete=complete_graph)
@config_option
@click.option(
    "--http",
    default="127.0.0.1:8501",
    metavar="[HOST:]PORT|unix:PATH",
    help="The address for HTTP, or a Unix socket. Port 0: any free port. Other machines can "
    "connect only to a network address of this machine, or 0.0.0.0.",
)
@click.option(
    "--grpc",
    default="127.0.0.1:8500",
    metavar="[HOST:]PORT|unix:PATH|off",
    help="The address for gRPC, or a Unix socket. Port 0: any free port.",
)
@field_options(OPTIONS)
@declare_repeated(
    "--set",
    "overrides",
    "NODE.KEY=VALUE",
    "Set an attribute of a node of every graph. The node of a model has the name model. May "
    "be repeated.",
)
@declare_repeated("--arg", "args", "NAME=VALUE", "A value for [args.NAME].")
@click.option(
    "--engine",
    default="",
    metavar="NAME",
    help="The engine of models that are not graphs, or module:Class for a PythonModel. Default: by "
    "each file's form.",
)
@click.option(
    "--versions",
    default="latest",
    metavar="latest|all|N,M",
    help="The versions to serve from a folder with versions (1/ 2/ ...).",
)
@declare_repeated(
    "--label",
    "labels",
    "NAME:LABEL=VERSION[@WEIGHT]",
    "A name for a version, for clients: digits:stable=2. Several versions of a label share its "
    "requests by weight: digits:stable=3@90 and digits:stable=4@10. A shadow version gets copies, "
    "and its answers are discarded: digits:stable=5@shadow:20%. May be repeated.",
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
    help="A batching_config.txt of TensorFlow Serving, for models that are not graphs.",
)
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    help="The folder for copies of models at URLs. Default: $MODELFLOW_CACHE, or "
    "~/.cache/modelflow.",
)
@click.option(
    "--cache-size",
    type=read_size,
    metavar="SIZE",
    help="The most bytes of all copies, as in 20GiB. A new copy removes the least recently used "
    "ones. A copy in use stays. Default: no limit.",
)
@field_options(SERVED)
@on_option
@share_option
@click.option(
    "--describe",
    "is_described",
    is_flag=True,
    help="Print each model as clients see it, with an example call, and exit.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 1024),
    default=1,
    metavar="N",
    help="Number of processes, each with all models. Use replicas for models on the CPU that do "
    "not batch and hold Python's lock. The limits below apply to each process.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 1024),
    default=0,
    metavar="N",
    help="Number of processes that read requests and write replies, in front of one process with "
    "the models. Use workers for many clients and models that batch, from about 8 processors. "
    "0: one process does all.",
)
@declare_repeated(
    "--isolate",
    "isolate",
    "NAME",
    "Run this model in a process of its own. If the model hangs, leaks or crashes, the others are "
    "not affected. May be repeated; a graph can set isolate = true in its section [serve].",
)
@field_options(REQUESTS)
@field_options(CONNECTIONS)
@field_options(GUARDS)
def serve(**given: Any) -> int:
    """Serves graphs and models to the clients of TensorFlow Serving and Open Inference.

    The server answers over HTTP, and over gRPC if gRPC is installed.

    SOURCE is a graph file, the name of a ready graph, or a model. It may also be a folder with
    versions of a model (1/ 2/ ...), or a folder of models. The URL of one of these is copied into a
    cache (s3:// gs:// hf:// https:// oci://). A graph is served as a model with the
    graph's inputs and outputs, and each item of a request is a buffer. Ctrl-C ends the server at
    once. SIGTERM ends it after the accepted requests. SIGHUP loads new versions without a failed
    request, reads the API keys again, and reopens the access log.

    \b
    modelflow serve graph.toml
    modelflow serve detect_classify
    modelflow serve digits=graphs/digits.toml resnet50.onnx ./models --poll 10
    curl -d '{"instances": [1.0, 2.0]}' http://127.0.0.1:8501/v1/models/graph:predict
    """
    given["sources"] = add_names(given["sources"] or read_setting("sources"), given)
    tell_environment(Environment.of(os.environ))
    given["http"] = _split("--http", given["http"])
    given["grpc"] = _grpc_address(given["grpc"], GrpcKind(given["grpc_server"]))
    if not given["sources"] and given["config_file"] is None:
        raise click.UsageError(
            "Missing argument '[NAME=]SOURCE...': a graph or a model, or --model-config-file"
        )
    check_far(given["on"], given["share"])
    if given["is_described"]:
        host, port = given["http"]
        scheme = "http" if given["tls_cert"] is None else "https"
        with place_config(build_config(given), given["on"], given["share"]) as config:
            address = host if is_unix(host) else f"{scheme}://{join_address(host, port)}"
            return _describe(config, address)
    if given["workers"] and given["replicas"] > 1:
        raise click.UsageError(
            f"--workers {given['workers']} and --replicas {given['replicas']}: give one of the "
            "two; workers share one process with the models, replicas have all models each"
        )
    given["isolate"] = list_isolated(given)
    if given["workers"] or given["replicas"] > 1 or given["isolate"]:
        from modelflow.cli.serve.replicas import keep_replicas

        _check_shared(given)
        return keep_replicas({**given, "share": name_shared(given["on"], given["share"])})
    from modelflow.serve.server import Server

    options = options_given(given)
    with place_config(build_config(given), given["on"], given["share"]) as config:
        return _run(Server(config, options))


def _run(server: "Server") -> int:
    """Serves until a signal ends the server."""
    from modelflow.serve.processes.service_notifier import ServiceNotifier

    notifier = ServiceNotifier(os.environ)
    try:
        with ending(server, notifier.stopping) as told:
            _answer(server, told, notifier)
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt
    return ExitCode.TERMINATED


def _answer(server: "Server", told: ServerEnd, notifier: "ServiceNotifier") -> None:
    """Answers requests until a signal ends the server."""
    try:
        try:
            with explain_errors():
                call_undisturbed(server.listen)
            server.wait_until_loaded()
        except Cancelled:
            if not told.asked.is_set():
                raise
        else:
            tell(server.models, server.address, server.grpc_address)
            notifier.ready(server.models, server.address)
            server.post(notifier.beat)
        told.ended.wait()
    finally:
        end_within(LAST_SECONDS)
        server.stop(drain=False)


def _describe(config: "ServeConfig", address: str) -> int:
    """Loads the models in order, and prints each model as its clients see the model."""
    from modelflow.graph.signature import signature_of
    from modelflow.serve.http.schemas import description
    from modelflow.wire.problem import reason_of

    config.check()
    code = 0
    for name, source in config.read().items():
        try:
            for edition in source.list_versions():
                with edition.open() as flow:
                    signature = signature_of(flow.graph, flow.scheduler)
                click.echo(description(name, edition.number, signature, address))
        except (ModelflowError, FlowFailed) as error:
            click.echo(f"{name}: {reason_of(error)}", err=True)
            code = 1
    return code


def _grpc_address(text: str, kind: GrpcKind) -> tuple[str, int | None]:
    """Parses ``--grpc``; the port is None for ``off``, or by default if gRPC is not installed."""
    if text == "off":
        return "", None
    context = click.get_current_context()
    is_asked = context.get_parameter_source("grpc") is not ParameterSource.DEFAULT
    if not is_asked and not has_grpc(kind):
        package = "zttp" if kind is GrpcKind.NATIVE else "grpcio"
        click.echo(f"gRPC is off: it needs the package {package} (--grpc off)", err=True)
        return "", None
    return _split("--grpc", text)


def _split(option: str, text: str) -> tuple[str, int]:
    """Parses an address. The result for a Unix socket is ``unix:PATH`` and port 0."""
    if not is_unix(text):
        return split_address(option, text)
    try:
        check_path(text.removeprefix(PREFIX))
    except OSError as error:
        raise click.UsageError(f"{option} {error.strerror}") from error
    return text, 0


def _check_shared(given: Mapping[str, Any]) -> None:
    """Checks that several processes can listen at the address for gRPC."""
    host, port = given["grpc"]
    if port is not None and is_unix(host) and given["grpc_server"] != GrpcKind.NATIVE:
        raise click.UsageError(
            f"--grpc {host}: grpcio cannot share a Unix socket between processes (--replicas, "
            "--workers, --isolate); expected --grpc-server native (extra serve-fast), or "
            "--grpc HOST:PORT"
        )
