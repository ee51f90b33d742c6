"""The options of a server: addresses, keys, and limits on requests and models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from modelflow.errors import ConfigError
from modelflow.http.options import ConnectionLimits, TlsOptions
from modelflow.quantities import bytes_of
from modelflow.wire.json_outline import JsonLimits
from modelflow.wire.problem import Code, refuse

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["ServeOptions"]


class GrpcKind(StrEnum):
    """The gRPC server to use."""

    AUTO = "auto"
    """The default, which is grpcio."""
    NATIVE = "native"
    """The own server on zttp, which costs less per call but is young."""
    GRPCIO = "grpcio"
    """The asyncio server of grpcio."""


def has_grpc(kind: GrpcKind) -> bool:
    """Returns whether the package of a gRPC server is installed."""
    return find_spec("zttp" if kind is GrpcKind.NATIVE else "grpc") is not None


# ruff: noqa: RUF009


Tuning = Mapping[str, int | float]
"""Attributes that a client has set for the node whose calls count as calls of a model."""

UNTUNED: Tuning = MappingProxyType({})
"""The tuning of a model with the settings of its files."""


# The headings of ``modelflow serve --help``.
OPTIONS = "Options"
SERVED = "Models"
REQUESTS = "Limits on requests"
CONNECTIONS = "Limits on connections"
GUARDS = "Security and logs"


class Option(NamedTuple):
    """The command-line option of ``modelflow serve`` for a field.

    The help text of the option is the field's documentation.

    Attributes:
        flag: The flag on the command line.
        group: The heading of the option in the help.
        kind: ``count``, ``seconds`` (may be 0), ``timeout``, ``percent``, ``path``, ``flag``,
            ``texts``, ``log`` or ``choice``. Each is a row of ``_KINDS`` in
            ``cli/serve/server_options.py``.
        least: The smallest value of a count.
        words: The words of a choice.
        metavar: The name of the value in the help.
    """

    flag: str
    group: str
    kind: str = "count"
    least: int = 0
    words: Sequence[str] = ()
    metavar: str | None = None

    @property
    def name(self) -> str:
        """Returns the parameter name of the option in the command's function."""
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
    """The addresses of a server and the limits on its models, requests and connections.

    Attributes:
        host: The address to listen at. With the default, other machines cannot reach the server.
        http_port: The port for HTTP. With 0, the system chooses a free port.
        grpc_host: The address for gRPC.
        grpc_port: The port for gRPC. TensorFlow Serving uses 8500. With 0, the system chooses a
            free port. With None, the server has no gRPC.
        grpc_server: The gRPC server: grpcio or native (on zttp, extra serve-fast). The native
            server costs less per call but is young. The value auto means grpcio.
        drain_timeout: Seconds that running requests have to finish after SIGTERM and the drain
            delay.
        drain_delay: Seconds after SIGTERM in which the server reports "not ready" but still accepts
            requests. Set more seconds than a load balancer takes to notice.
        poll: Seconds between two searches for new versions and models. With 0, the server searches
            at SIGHUP only.
        load_timeout: Seconds that a version may take to load. After that the server gives this
            version up and serves the others.
        is_repository_open: Lets clients load and unload models with POST
            /v2/repository/models/NAME/load.
        is_memory_shared: Lets clients on this machine register shared memory for tensors. Each such
            client can read and write all shared memory of the server's user.
        max_requests: Most unanswered requests to one model. The next request is answered 503. The
            limit holds separately for requests of the first class (priority 1).
        max_sequences: Most open sequences of one model in one process. The next start is answered
            429 or RESOURCE_EXHAUSTED.
        sequence_timeout: Seconds without a request after which a sequence ends.
        caches: The size of the response cache of each model, [NAME=]SIZE: 64MiB, or digits=1GiB.
            Equal inputs then get the stored outputs. May be repeated. A graph can set cache in its
            section [serve].
        max_body: The longest body or gRPC message in bytes. A longer body is answered 413, a longer
            message RESOURCE_EXHAUSTED.
        max_bodies: Most bytes of all bodies and messages that are being read or processed. A
            request beyond this limit is answered 503.
        max_decompressed: The longest decompressed body in bytes. A longer body is answered 400. The
            limit also holds for the tf.Example inputs of a request, each counted with their shared
            context.  [default: as --max-body]
        json: The limits on a JSON document.
        max_tensor_elements: Most elements of one tensor. More elements are answered 429 or
            RESOURCE_EXHAUSTED.
        max_rows: Most items (rows) of one request. More rows are answered 429 or
            RESOURCE_EXHAUSTED.
        body_time_out: Seconds within which a body must arrive. A later body is answered 408.
        request_timeout: Seconds that a request may take. After that the server gives the request up
            and answers 504 or DEADLINE_EXCEEDED, even if the model still runs. In a stream, the
            seconds count until the next part.
        connections: The limits on connections.
        max_calls: Most simultaneous gRPC calls, including open streams. The next call is answered
            RESOURCE_EXHAUSTED.
        max_streams: Most simultaneous gRPC calls on one connection. Further calls wait in the
            client.
        tls: Certificate and key for both protocols, or None for no TLS.
        key_file: A file of API keys, of which every request needs one. A line is KEY or GROUPS KEY
            (groups: infer, repository, metrics). Limits may follow the key, such as requests=100/s
            and rows=5000/m. The server reads the file again at SIGHUP.
        cors_origins: Pages of this origin (https://app.example.com, or * for all) may send
            requests. May be repeated.
        access_log: The file that gets a JSON line for every request, or - for the standard output.
            The server reopens the file at SIGHUP.
        payload_log: The file or URL (http, https) that gets the bodies of inference requests and
            replies as CloudEvents. The server reopens the file at SIGHUP.
        log_payloads: The share of requests in the payload log, such as 1%.  [default: 100%]
        payload_bytes: Most bytes of a body in the payload log. A longer body is cut.
        tracing: Records an OpenTelemetry span for every request, and one for each node that the
            request passes. The environment (OTEL_...) sets the destination and the sampling. Needs
            the packages of modelflow-graph[otel].
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
    is_memory_shared: bool = _option(False, "--allow-shared-memory", SERVED, "flag")
    caches: tuple[str, ...] = _option((), "--cache", SERVED, "texts", metavar="[NAME=]SIZE")
    max_requests: int = _option(1000, "--max-requests", REQUESTS, least=1)
    max_sequences: int = _option(10_000, "--max-sequences", REQUESTS, least=1)
    sequence_timeout: float = _option(60.0, "--sequence-timeout", REQUESTS, "timeout")
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
    payload_log: str | None = _option(None, "--payload-log", GUARDS, "log", metavar="FILE|URL")
    log_payloads: float | None = _option(
        None, "--log-payloads", GUARDS, "percent", metavar="PERCENT"
    )
    payload_bytes: int = _option(256 << 10, "--payload-bytes", GUARDS)
    tracing: "bool | TracerProvider" = _option(False, "--otel", GUARDS, "flag")

    @property
    def expanded(self) -> int:
        """Returns the limit in bytes on a body after decompression or expansion."""
        return self.max_body if self.max_decompressed is None else self.max_decompressed

    def __post_init__(self) -> None:
        """Checks the sizes of caches.

        Raises:
            ConfigError: A size has another form.
        """
        for text in self.caches:
            if bytes_of(text.rpartition("=")[2]) is None:
                raise ConfigError(
                    f"--cache: got {text!r}; expected a size, or NAME=SIZE, as in digits=64MiB"
                )

    def cache_of(self, name: str) -> int:
        """Returns the size of a model's response cache in bytes, or 0."""
        sizes = dict(text.rpartition("=")[::2] for text in self.caches)
        return int(bytes_of(sizes.get(name, sizes.get("", "0"))) or 0)

    def check_elements(self, count: int, where: str) -> None:
        """Checks the number of elements of a tensor against the limit.

        Args:
            count: The number of elements.
            where: The name of the tensor, for the message.

        Raises:
            Problem: The tensor has too many elements.
        """
        if count > self.max_tensor_elements:
            refuse(
                f"{where}: {count} elements; at most {self.max_tensor_elements} are taken",
                Code.RESOURCE_EXHAUSTED,
            )

    def check_rows(self, count: int, where: str) -> None:
        """Checks the number of items of a request against the limit.

        The limit exists because each item costs more memory than its bytes.

        Args:
            count: The number of items.
            where: The name of the input, for the message.

        Raises:
            Problem: The request has too many items.
        """
        if count > self.max_rows:
            refuse(
                f"{where}: {count} rows; at most {self.max_rows} are taken in one request",
                Code.RESOURCE_EXHAUSTED,
            )

    def check_expanded(self, length: int) -> None:
        """Checks the total bytes of the examples of a request against the limit.

        Raises:
            Problem: The examples have too many bytes.
        """
        if length > self.expanded:
            refuse(
                f"the examples have more than {self.expanded} bytes, each with the context; "
                "send fewer examples, or a shorter context",
                Code.RESOURCE_EXHAUSTED,
            )
