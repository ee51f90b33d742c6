"""What a server is asked to be: addresses, keys, limits on requests and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modelflow.http.options import ConnectionLimits, TlsOptions
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.problem import Code, refuse

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["ServeOptions"]


class GrpcKind(StrEnum):
    """Which server answers gRPC."""

    AUTO = "auto"
    """The default: grpcio's."""
    NATIVE = "native"
    """Our own on zttp, which is young: cheaper a call."""
    GRPCIO = "grpcio"
    """grpcio's, in its asyncio form."""


def has_grpc(kind: GrpcKind) -> bool:
    """Tells whether the package of a server of gRPC is installed."""
    return find_spec("zttp" if kind is GrpcKind.NATIVE else "grpc") is not None


# ruff: noqa: RUF009


# The headings of ``modelflow serve --help``.
OPTIONS = "Options"
SERVED = "What is served"
REQUESTS = "What requests may be"
CONNECTIONS = "What connections may be"
GUARDS = "Guards and logs"


class Option(NamedTuple):
    """How ``modelflow serve`` is told the value of a field; its help is the field's documentation.

    Attributes:
        flag: Of the command line.
        group: The heading that the option stands under.
        kind: ``count``, ``seconds`` (may be 0), ``timeout``, ``path``, ``flag``, ``texts``,
            ``log``, or ``choice``: a row of ``_KINDS`` in ``cli/serve/server_options.py``.
        least: Of a count.
        words: Of a choice.
        metavar: What the help shows in the place of a value.
    """

    flag: str
    group: str
    kind: str = "count"
    least: int = 0
    words: Sequence[str] = ()
    metavar: str | None = None

    @property
    def name(self) -> str:
        """What the value is called among those of the command."""
        return self.flag.removeprefix("--").replace("-", "_")


def _option(default: Any, *how: Any, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(*how, **more)})


def _nest(kind: type, options: Mapping[str, Option], make: Any = None) -> Any:
    return field(default_factory=make or kind, metadata={"type": kind, "options": options})


_JSON = {
    "depth": Option("--max-json-depth", REQUESTS, least=1),
    "elements": Option("--max-json-elements", REQUESTS, least=1),
}
_CONNECTIONS = {
    "connections": Option("--max-connections", CONNECTIONS, least=1),
    "per_client": Option("--max-connections-per-client", CONNECTIONS),
    "requests": Option("--max-connection-requests", CONNECTIONS),
    "header_bytes": Option("--max-header-bytes", CONNECTIONS, least=256),
    "headers": Option("--max-headers", CONNECTIONS, least=1),
    "header_time_out": Option("--header-timeout", CONNECTIONS, "timeout"),
    "keepalive": Option("--keepalive-timeout", CONNECTIONS, "timeout"),
}
_TLS = {
    "cert": Option("--tls-cert", GUARDS, "path"),
    "key": Option("--tls-key", GUARDS, "path"),
    "client_ca": Option("--tls-client-ca", GUARDS, "path"),
}
_SERVERS = [kind.value for kind in GrpcKind]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a server listens, and what it takes.

    Attributes:
        host: The address; other machines reach it only at one of the network.
        http_port: 0: any that is free.
        grpc_host: The address for gRPC.
        grpc_port: 8500 is TensorFlow Serving's; 0: any that is free; None: no gRPC.
        grpc_server: What answers gRPC: grpcio, or native, on zttp, which is young and cheaper a
            call (extra serve-fast); auto is grpcio.
        drain_timeout: Seconds within which SIGTERM lets the requests under way be answered.
        drain_delay: Seconds before that in which it is not ready any more, and goes on answering
            whoever asks: longer than a load balancer takes to see it.
        poll: How often it looks for new versions and models; 0: only at SIGHUP.
        load_timeout: Seconds that a version may take to load; then it is given up, and the others
            are served.
        is_repository_open: Lets clients load and unload models: POST
            /v2/repository/models/NAME/load.
        max_requests: Most requests to one model that have no answer yet; one more is answered 503.
        max_body: The longest body, or gRPC message, in bytes; a longer one is answered 413, or
            RESOURCE_EXHAUSTED.
        max_bodies: Most bytes of all bodies and messages that are read or worked on; what is more
            is answered 503.
        max_decompressed: The longest body, decompressed, in bytes; a longer one is answered 400.
            Also of examples, each with the context that they share.  [default: as --max-body]
        json: What a JSON document may hold.
        max_tensor_elements: Most elements of one tensor; more are answered 429, or
            RESOURCE_EXHAUSTED.
        max_rows: Most items (rows) of one request; more are answered 429, or RESOURCE_EXHAUSTED.
        body_time_out: Seconds within which a body must be there; else 408.
        request_timeout: Seconds that a request may take; then it is answered 504, or
            DEADLINE_EXCEEDED, and given up, whatever its model does. Of a stream: until its next
            part.
        connections: What connections may cost.
        max_calls: Most gRPC calls at once, open streams among them; one more is RESOURCE_EXHAUSTED.
        max_streams: Most gRPC calls at once of one connection; further ones wait in the client.
        tls: Certificate and key, for both protocols; None: no TLS.
        key_file: Whoever asks must have a key of this file: lines KEY, or GROUPS KEY (infer,
            repository, metrics). Read again at SIGHUP.
        cors_origins: Pages of this origin (https://app.example.com, or * for all) may ask. May be
            repeated.
        access_log: Where a line of JSON for every request goes; -: the standard output. Opened anew
            at SIGHUP.
        tracing: A span of OpenTelemetry for every request, and one for each node that it passes;
            where they go, and how many, the environment says (OTEL_...). Needs the packages of
            modelflow-graph[otel].
    """

    host: str = "127.0.0.1"
    http_port: int = 8501
    grpc_host: str = "127.0.0.1"
    grpc_port: int | None = None
    grpc_server: GrpcKind = _option(
        GrpcKind.AUTO, "--grpc-server", OPTIONS, "choice", words=_SERVERS
    )
    drain_timeout: float = _option(30.0, "--drain-timeout", OPTIONS, "seconds")
    drain_delay: float = _option(0.0, "--drain-delay", OPTIONS, "seconds")
    poll: float = _option(0.0, "--poll", SERVED, "seconds", metavar="SECONDS")
    load_timeout: float = _option(600.0, "--load-timeout", SERVED, "timeout")
    is_repository_open: bool = _option(False, "--allow-repository", SERVED, "flag")
    max_requests: int = _option(1000, "--max-requests", REQUESTS, least=1)
    max_body: int = _option(64 << 20, "--max-body", REQUESTS)
    max_bodies: int = _option(1 << 30, "--max-bodies", REQUESTS)
    max_decompressed: int | None = _option(None, "--max-decompressed", REQUESTS)
    json: JsonLimits = _nest(JsonLimits, _JSON)
    max_tensor_elements: int = _option(1 << 29, "--max-tensor-elements", REQUESTS)
    max_rows: int = _option(1 << 17, "--max-rows", REQUESTS)
    body_time_out: float = _option(30.0, "--body-timeout", REQUESTS, "timeout")
    request_timeout: float = _option(600.0, "--request-timeout", REQUESTS, "timeout")
    connections: ConnectionLimits = _nest(ConnectionLimits, _CONNECTIONS)
    max_calls: int = _option(10_000, "--max-calls", CONNECTIONS, least=1)
    max_streams: int = _option(1000, "--max-streams", CONNECTIONS, least=1)
    tls: TlsOptions | None = _nest(TlsOptions, _TLS, make=lambda: None)
    key_file: Path | None = _option(None, "--api-key-file", GUARDS, "path")
    cors_origins: tuple[str, ...] = _option((), "--cors-origin", GUARDS, "texts", metavar="ORIGIN")
    access_log: str | None = _option(None, "--access-log", GUARDS, "log", metavar="FILE|-")
    tracing: "bool | TracerProvider" = _option(False, "--otel", GUARDS, "flag")

    @property
    def expanded(self) -> int:
        """Most bytes of what a body stands for, where it is longer than itself."""
        return self.max_body if self.max_decompressed is None else self.max_decompressed

    def check_elements(self, count: int, where: str) -> None:
        """Checks how many elements a tensor has.

        Args:
            count: So many.
            where: Which it is, for the message.

        Raises:
            Problem: they are too many.
        """
        if count > self.max_tensor_elements:
            refuse(
                f"{where}: {count} elements; at most {self.max_tensor_elements} are taken",
                Code.RESOURCE_EXHAUSTED,
            )

    def check_rows(self, count: int, where: str) -> None:
        """Checks how many items a request has, each of which costs more than its bytes.

        Args:
            count: So many.
            where: Of which input, for the message.

        Raises:
            Problem: they are too many.
        """
        if count > self.max_rows:
            refuse(
                f"{where}: {count} rows; at most {self.max_rows} are taken in one request",
                Code.RESOURCE_EXHAUSTED,
            )

    def check_expanded(self, length: int) -> None:
        """Checks how many bytes examples have.

        Raises:
            Problem: they are too many.
        """
        if length > self.expanded:
            refuse(
                f"the examples have more than {self.expanded} bytes, each with the context; send "
                "fewer of them, or less context",
                Code.RESOURCE_EXHAUSTED,
            )
