"""`ServeOptions`: where a server listens, and what it takes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from modelflow.http.limits import ConnectionLimits
from modelflow.serve.grpc_kind import GrpcKind
from modelflow.wire.json_outline import JsonLimits

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from modelflow.http.tls import TlsOptions

__all__ = ["ServeOptions"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a server listens, and what it takes.

    Attributes:
        host: The address; other machines reach it only at one of the network.
        http_port: 0: any that is free.
        grpc_host: The address for gRPC.
        grpc_port: 8500 is TensorFlow Serving's; 0: any that is free; None: no gRPC.
        grpc_server: Which server answers gRPC; see `GrpcKind`.
        max_requests: Most requests to one model that have no answer yet; one more is answered 503.
        max_calls: Most gRPC calls at once, open streams among them.
        max_streams: Most gRPC calls at once of one connection; further ones wait in the client.
        max_body: Most bytes of a body, or a gRPC message; a longer one is answered 413, or
            RESOURCE_EXHAUSTED.
        max_bodies: Most bytes of all bodies and messages that are read or worked on.
        max_decompressed: Most bytes of a body that was sent compressed, and of examples with the
            context that they share; None: `max_body`.
        max_tensor_elements: Most elements of one tensor.
        max_rows: Most items of one request.
        json: What a JSON document may hold.
        body_time_out: Seconds within which a body must be there.
        load_timeout: Seconds that a version may take to load; then it is given up.
        request_timeout: Seconds that a request may take; then it is answered 504, or
            DEADLINE_EXCEEDED. Of a stream: until its next part.
        drain_timeout: Seconds within which a stop lets the requests under way be answered.
        drain_delay: Seconds before that for which a stop goes on answering whoever asks, but is not
            ready any more: until those who ask whether it is have seen it.
        connections: What connections may cost.
        poll: Seconds between two looks for new versions; 0: only when it is asked to.
        is_repository_open: Clients may load and unload models.
        tls: Certificate and key, for both protocols; None: no TLS.
        key_file: The file with the API keys (see `modelflow.serve.keys`), which `Server.refresh`
            reads again; None: none is asked for.
        access_log: The file that a line for every request is appended to, ``-`` for the standard
            output; None: there is no such log.
        cors_origins: The origins whose pages may ask; ``*``: all.
        tracing: Every request has a span of OpenTelemetry, exported as the environment says
            (``OTEL_...``); or made by a tracer provider of the caller's own, who ends it.
    """

    host: str = "127.0.0.1"
    http_port: int = 8501
    grpc_host: str = "127.0.0.1"
    grpc_port: int | None = None
    grpc_server: GrpcKind = GrpcKind.AUTO
    max_requests: int = 1000
    max_calls: int = 10_000
    max_streams: int = 1000
    max_body: int = 64 << 20
    max_bodies: int = 1 << 30
    max_decompressed: int | None = None
    max_tensor_elements: int = 1 << 29
    max_rows: int = 1 << 17
    json: JsonLimits = field(default_factory=JsonLimits)
    body_time_out: float = 30.0
    load_timeout: float = 600.0
    request_timeout: float = 600.0
    drain_timeout: float = 30.0
    drain_delay: float = 0.0
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    poll: float = 0.0
    is_repository_open: bool = False
    tls: "TlsOptions | None" = None
    key_file: Path | None = None
    access_log: str | None = None
    cors_origins: tuple[str, ...] = ()
    tracing: "bool | TracerProvider" = False

    @property
    def expanded(self) -> int:
        """Most bytes of what a body stands for, where it is longer than itself."""
        return self.max_body if self.max_decompressed is None else self.max_decompressed
