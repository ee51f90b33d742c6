"""The options of ``modelflow serve`` that bound, guard and watch a server, and their values."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.option_groups import GroupedCommand
from modelflow.cli.other_servers import counterparts_of
from modelflow.http.limits import ConnectionLimits
from modelflow.serve.grpc_kind import GrpcKind
from modelflow.serve.options import ServeOptions
from modelflow.wire.json_outline import JsonLimits

if TYPE_CHECKING:
    from modelflow.http.tls import TlsOptions

__all__ = ["ServeCommand", "limit_option", "serve_options", "settings"]

_OPTIONS, _CONNECTIONS, _JSON = ServeOptions(), ConnectionLimits(), JsonLimits()

_LONGEST = 86_400  # seconds: a day
_MOST = 1 << 53

_Values = tuple[str, str, Any, int, str]

# Flag, parameter, default, least, help.
_REQUESTS: tuple[_Values, ...] = (
    (
        "--max-requests",
        "max_requests",
        _OPTIONS.max_requests,
        1,
        "Most requests to one model that have no answer yet; one more is answered 503.",
    ),
    (
        "--max-body",
        "max_body",
        _OPTIONS.max_body,
        0,
        "The longest body, or gRPC message, in bytes; a longer one is answered 413, or "
        "RESOURCE_EXHAUSTED.",
    ),
    (
        "--max-bodies",
        "max_bodies",
        _OPTIONS.max_bodies,
        0,
        "Most bytes of all bodies and messages that are read or worked on; what is more is "
        "answered 503.",
    ),
    (
        "--max-decompressed",
        "max_decompressed",
        None,
        0,
        "The longest body, decompressed, in bytes; a longer one is answered 400. Also of examples, "
        "each with the context that they share.  [default: as --max-body]",
    ),
    (
        "--max-json-depth",
        "max_json_depth",
        _JSON.depth,
        1,
        "Most lists and objects of a JSON document inside one another; more are answered 400.",
    ),
    (
        "--max-json-elements",
        "max_json_elements",
        _JSON.elements,
        1,
        "Most values of a JSON document; more are answered 429.",
    ),
    (
        "--max-tensor-elements",
        "max_tensor_elements",
        _OPTIONS.max_tensor_elements,
        0,
        "Most elements of one tensor; more are answered 429, or RESOURCE_EXHAUSTED.",
    ),
    (
        "--max-rows",
        "max_rows",
        _OPTIONS.max_rows,
        0,
        "Most items (rows) of one request; more are answered 429, or RESOURCE_EXHAUSTED.",
    ),
    (
        "--body-timeout",
        "body_timeout",
        _OPTIONS.body_time_out,
        0,
        "Seconds within which a body must be there; else 408.",
    ),
    (
        "--request-timeout",
        "request_timeout",
        _OPTIONS.request_timeout,
        0,
        "Seconds that a request may take; then it is answered 504, or DEADLINE_EXCEEDED, and given "
        "up, whatever its model does. Of a stream: until its next part.",
    ),
)
_OF_CONNECTIONS: tuple[_Values, ...] = (
    (
        "--max-connections",
        "max_connections",
        _CONNECTIONS.connections,
        1,
        "Most HTTP connections, and no more than half of the process's descriptors. Where there "
        "are too many, one that is idle is closed; where none is, a new one is answered 503.",
    ),
    (
        "--max-connections-per-client",
        "max_connections_per_client",
        _CONNECTIONS.per_client,
        0,
        "Most HTTP connections of one address; 0: half of all.",
    ),
    (
        "--max-connection-requests",
        "max_connection_requests",
        _CONNECTIONS.requests,
        0,
        "Most requests on one HTTP connection, which is closed behind the last; 0: any number.",
    ),
    (
        "--max-header-bytes",
        "max_header_bytes",
        _CONNECTIONS.header_bytes,
        256,
        "Most bytes of the head of a request, or of the metadata of a gRPC call; more are "
        "answered 431, or RESOURCE_EXHAUSTED.",
    ),
    (
        "--max-headers",
        "max_headers",
        _CONNECTIONS.headers,
        1,
        "Most headers of a request; more are answered 431.",
    ),
    (
        "--header-timeout",
        "header_timeout",
        _CONNECTIONS.header_time_out,
        0,
        "Seconds within which the head of a request, and a TLS handshake, must be there.",
    ),
    (
        "--keepalive-timeout",
        "keepalive_timeout",
        _CONNECTIONS.keepalive,
        0,
        "Seconds for which an HTTP connection stays open between requests.",
    ),
    (
        "--max-calls",
        "max_calls",
        _OPTIONS.max_calls,
        1,
        "Most gRPC calls at once, open streams among them; one more is RESOURCE_EXHAUSTED.",
    ),
    (
        "--max-streams",
        "max_streams",
        _OPTIONS.max_streams,
        1,
        "Most gRPC calls at once of one connection; further ones wait in the client.",
    ),
)
_GUARDS = (
    click.option(
        "--tls-cert",
        type=click.Path(path_type=Path),
        help="The certificate (PEM), with those between it and the root: both protocols speak TLS.",
    ),
    click.option("--tls-key", type=click.Path(path_type=Path), help="Its key (PEM)."),
    click.option(
        "--tls-client-ca",
        type=click.Path(path_type=Path),
        help="Whoever connects must show a certificate that one of these (PEM) has signed.",
    ),
    click.option(
        "--api-key-file",
        type=click.Path(path_type=Path),
        help="Whoever asks must have a key of this file: lines KEY, or GROUPS KEY (infer, "
        "repository, metrics). Read again at SIGHUP.",
    ),
    click.option(
        "--cors-origin",
        "cors_origins",
        multiple=True,
        metavar="ORIGIN",
        help="Pages of this origin (https://app.example.com, or * for all) may ask. May be "
        "repeated.",
    ),
    click.option(
        "--access-log",
        type=click.Path(allow_dash=True),
        metavar="FILE|-",
        help="Where a line of JSON for every request goes; -: the standard output. Opened anew at "
        "SIGHUP.",
    ),
    click.option(
        "--otel",
        is_flag=True,
        help="A span of OpenTelemetry for every request, and one for each node that it passes; "
        "where they go, and how many, the environment says (OTEL_...). Needs the packages of "
        "modelflow-graph[otel].",
    ),
)


class ServeCommand(GroupedCommand):
    """``modelflow serve``, with its options in groups."""

    groups = {  # noqa: RUF012
        "What is served": [
            "overrides",
            "args",
            "versions",
            "labels",
            "config_file",
            "batching_file",
            "poll",
            "load_timeout",
            "allow_repository",
            "on",
            "share",
        ],
        "What requests may be": [name for _, name, *_ in _REQUESTS],
        "What connections may be": [name for _, name, *_ in _OF_CONNECTIONS],
        "Guards and logs": [
            "tls_cert",
            "tls_key",
            "tls_client_ca",
            "api_key_file",
            "cors_origins",
            "access_log",
            "otel",
        ],
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments; of flags of another server says what to write in their place."""
        given, known = list(args), {name for one in self.params for name in one.opts}
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            unknown = [argument for argument in given if argument.partition("=")[0] not in known]
            if not (lines := counterparts_of(unknown)):
                raise
            message = (
                f"No such option {error.option_name!r}. Flags of TensorFlow Serving or Triton, and "
                f"what to write here:{lines}"
            )
            raise click.UsageError(message, ctx) from error


def serve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options."""
    limits = [limit_option(*one) for one in (*_REQUESTS, *_OF_CONNECTIONS)]
    for option in reversed((*limits, *_GUARDS)):
        command = option(command)
    return command


def settings(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `ServeOptions` that the options say.

    Args:
        found: The values of the options, by parameter.

    Raises:
        click.UsageError: one half of certificate and key, or a CA without them.
    """
    own = {field.name for field in fields(ServeOptions)}
    return {
        **{name: value for name, value in found.items() if name in own},
        "grpc_server": GrpcKind(found["grpc_server"]),
        "body_time_out": found["body_timeout"],
        "json": JsonLimits(found["max_json_depth"], found["max_json_elements"]),
        "connections": ConnectionLimits(
            connections=found["max_connections"],
            per_client=found["max_connections_per_client"],
            header_bytes=found["max_header_bytes"],
            headers=found["max_headers"],
            header_time_out=found["header_timeout"],
            keepalive=found["keepalive_timeout"],
            requests=found["max_connection_requests"],
        ),
        "tls": _tls(found["tls_cert"], found["tls_key"], found["tls_client_ca"]),
        "key_file": found["api_key_file"],
        "tracing": found["otel"],
    }


class _Seconds(click.FloatRange):
    """Seconds that there is an end to."""

    def __init__(self) -> None:
        super().__init__(0, _LONGEST, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return found


def limit_option(
    flag: str, name: str, default: Any, least: int, text: str
) -> "Callable[[Callable[..., Any]], Callable[..., Any]]":
    """Returns an option for a bound: a whole number, or seconds where the flag says a timeout."""
    kind: Any = _Seconds() if flag.endswith("-timeout") else click.IntRange(least, _MOST)
    return click.option(flag, name, type=kind, default=default, show_default=True, help=text)


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> "TlsOptions | None":
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        missing = "--tls-cert" if cert is None else "--tls-key"
        message = f"{missing} is missing: TLS takes --tls-cert FILE and --tls-key FILE"
        raise click.UsageError(message)
    from modelflow.http.tls import TlsOptions

    return TlsOptions(cert, key, client_ca)
