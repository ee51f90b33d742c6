"""Endpoints such as ``http://127.0.0.1:8080/path``, and the options of units that listen."""

import resource
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from modelflow.errors import did_you_mean
from modelflow.files.unix_socket import is_unix
from modelflow.unit.option import option

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen at.

    Attributes:
        host: A name or address of this machine.
        port: A port from 1 to 65535, or 0 for any free port.
        path: The prefix of the served paths; ``"/"`` for all paths.
        is_tls: Whether the endpoint uses TLS.
    """

    host: str
    port: int
    path: str = "/"
    is_tls: bool = False

    def serves(self, path: str) -> bool:
        """Returns whether a request's path belongs to this endpoint."""
        own = self.path.rstrip("/")
        return not own or path == own or path.startswith(own + "/")

    def __str__(self) -> str:
        scheme = "https" if self.is_tls else "http"
        return f"{scheme}://{join_address(self.host, self.port)}{self.path}"


def join_address(host: str, port: int) -> str:
    """Returns an address for clients: ``127.0.0.1:8500``, ``[::1]:8500`` or ``unix:PATH``."""
    if is_unix(host):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_endpoint(text: str) -> Endpoint:
    """Parses an endpoint.

    Raises:
        ValueError: The text is no endpoint. The message says what was expected.
    """
    expected = "expected http://HOST:PORT/PATH, as in http://127.0.0.1:8080"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"endpoint: got {text!r} ({error}); {expected}") from error
    if parts.scheme not in _PORTS:
        near = did_you_mean(parts.scheme, _PORTS)
        raise ValueError(
            f"endpoint: got {text!r}, whose scheme is {parts.scheme!r}{near}; {expected}"
        )
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"endpoint: got {text!r}; {expected}")
    return Endpoint(
        parts.hostname,
        _PORTS[parts.scheme] if port is None else port,
        parts.path or "/",
        parts.scheme == "https",
    )


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True)
class ListenOptions:
    """The options of every flow unit that receives requests."""

    endpoint: str = option(
        "http://127.0.0.1:8080",
        help="The address: http or https, host, port (0 for any free port) and the prefix of the "
        "served paths. For access from other machines, use a network address of this machine, or "
        "0.0.0.0.",
    )
    methods: tuple[str, ...] = option(
        (),
        help="The allowed methods, such as POST; others get 405. By default all are allowed.",
    )
    max_requests: int = option(
        1000,
        help="Most requests that wait for the graph or for a reply. The next request gets 503.",
        minimum=1,
        maximum=1_000_000,
    )
    keepalive_timeout_sec: int = option(
        200,
        help="Seconds that a connection stays open between requests.",
        minimum=1,
        maximum=86_400,
    )
    max_body_bytes: int = option(
        64 << 20, help="The longest body. A longer body is answered 413.", minimum=0
    )
    max_bodies_bytes: int = option(
        1 << 30,
        help="Most bytes of all bodies that are read or processed. Further requests get 503.",
        minimum=0,
    )
    max_header_bytes: int = option(
        64 << 10,
        help="Most bytes of a request's head. A longer head is answered 431.",
        minimum=256,
        maximum=16 << 20,
    )
    header_time_out_ms: int = option(
        10_000,
        help="Milliseconds within which the head of a request must arrive.",
        minimum=1,
        maximum=86_400_000,
    )
    max_connections: int = option(
        1000,
        help="Most connections, and at most half of the process's file descriptors. If there are "
        "too many, the connection that has been idle longest is closed. If none is idle, a "
        "new connection is answered 503.",
        minimum=1,
        maximum=1_000_000,
    )
    max_connections_per_client: int = option(
        0, help="Most connections of one address; 0 for half of all.", minimum=0, maximum=1_000_000
    )
    cert: str = option("", help="The certificate (PEM), for https.", is_path=True)
    key: str = option("", help="The key of the certificate (PEM).", is_path=True)

    def __post_init__(self) -> None:
        """Checks endpoint and methods.

        Raises:
            ValueError: The endpoint or a method is invalid.
        """
        read_endpoint(self.endpoint)
        for method in self.methods:
            if method not in METHODS:
                near = did_you_mean(method.upper(), METHODS)
                raise ValueError(
                    f"methods: got {method!r}; expected any of {', '.join(METHODS)}{near}"
                )


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits on the connections of a server.

    Attributes:
        connections: Most HTTP connections, and at most half of the process's file descriptors. If
            there are too many, an idle connection is closed. If none is idle, a new connection is
            answered 503.
        per_client: Most HTTP connections of one address; 0 for half of all. Clients of a Unix
            socket have no address, and only the limit on all connections holds for them.
        header_bytes: Most bytes of the head of a request, or of the metadata of a gRPC call. More
            bytes are answered 431 or RESOURCE_EXHAUSTED.
        header_time_out: Seconds within which the head of a request, and a TLS handshake, must
            arrive.
        keepalive: Seconds that an HTTP connection stays open between requests.
        headers: Most headers of a request. More headers are answered 431.
        requests: Most requests on one HTTP connection, which closes after the last; 0 for any
            number.
    """

    connections: int = 1000
    per_client: int = 0
    header_bytes: int = 64 << 10
    header_time_out: float = 10.0
    keepalive: float = 200.0
    headers: int = 1000
    requests: int = 0

    @property
    def most(self) -> int:
        """Returns the limit on simultaneous connections."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            return self.connections
        return max(1, min(self.connections, descriptors // 2))

    @property
    def most_of_one(self) -> int:
        """Returns the limit on simultaneous connections of a client."""
        return self.per_client or max(1, self.most // 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on the requests of a listener.

    Attributes:
        requests: Most running requests. The next request is answered 503.
        body: Most bytes of a body. A longer body is answered 413.
        bodies: Most bytes of all bodies that are read or processed. Further requests get 503.
        time_out: Seconds after which a request is answered 504, or 408 if its body has not arrived.
        connection: The limits on connections. Listeners that share a port have the limits of the
            first listener.
        methods: The allowed methods; others get 405. An empty tuple allows all.
    """

    requests: int = 1000
    body: int = 64 << 20
    bodies: int = 1 << 30
    time_out: float = 5.0
    connection: ConnectionLimits = ConnectionLimits()
    methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The TLS files of a server.

    Attributes:
        cert: The certificate (PEM) with its intermediate certificates. Both protocols then use TLS.
        key: The key of the certificate (PEM).
        client_ca: The CA certificates (PEM) for client certificates, which every client must then
            have.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
