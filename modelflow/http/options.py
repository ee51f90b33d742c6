"""Where a server listens (``http://127.0.0.1:8080/path``), and the options of units that listen."""

import resource
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from modelflow.errors import did_you_mean
from modelflow.unit.option import option

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen at.

    Attributes:
        host: A name or address of this machine.
        port: 1 to 65535; 0: any that is free.
        path: The beginning of the paths that are served; ``"/"``: all.
        is_tls: Over TLS.
    """

    host: str
    port: int
    path: str = "/"
    is_tls: bool = False

    def serves(self, path: str) -> bool:
        """Tells whether a request's path belongs to this endpoint."""
        own = self.path.rstrip("/")
        return not own or path == own or path.startswith(own + "/")

    def __str__(self) -> str:
        scheme = "https" if self.is_tls else "http"
        return f"{scheme}://{join_address(self.host, self.port)}{self.path}"


def join_address(host: str, port: int) -> str:
    """Returns an address as clients take it: ``127.0.0.1:8500``, ``[::1]:8500``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_endpoint(text: str) -> Endpoint:
    """Reads an endpoint.

    Raises:
        ValueError: it is none; the message says what was expected.
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
    """What every flow unit that takes requests can be told."""

    endpoint: str = option(
        "http://127.0.0.1:8080",
        help="Where to listen: http or https, host, port (0: any that is free), and the beginning "
        "of the paths that are served. Other machines reach it only at an address of the network, "
        "or 0.0.0.0.",
    )
    methods: tuple[str, ...] = option(
        (),
        help="The methods that are answered, such as POST; others get 405. None: all are.",
    )
    max_requests: int = option(
        1000,
        help="Most requests that have no answer yet, or that the graph has not taken yet; one more "
        "is answered 503.",
        minimum=1,
        maximum=1_000_000,
    )
    keepalive_timeout_sec: int = option(
        200,
        help="Seconds for which a connection stays open between requests.",
        minimum=1,
        maximum=86_400,
    )
    max_body_bytes: int = option(
        64 << 20, help="The longest body; a longer one is answered 413.", minimum=0
    )
    max_bodies_bytes: int = option(
        1 << 30,
        help="Most bytes of all bodies that are read or worked on; what is more is answered 503.",
        minimum=0,
    )
    max_header_bytes: int = option(
        64 << 10,
        help="Most bytes of a request's head; a longer one is answered 431.",
        minimum=256,
        maximum=16 << 20,
    )
    header_time_out_ms: int = option(
        10_000,
        help="Milliseconds within which the head of a request must be there.",
        minimum=1,
        maximum=86_400_000,
    )
    max_connections: int = option(
        1000,
        help="Most connections, and no more than half of the descriptors that the process may "
        "have. Where there are too many, the one that has waited longest for a request is closed; "
        "where all have one, a new one is answered 503.",
        minimum=1,
        maximum=1_000_000,
    )
    max_connections_per_client: int = option(
        0, help="Most connections of one address; 0: half of all.", minimum=0, maximum=1_000_000
    )
    cert: str = option("", help="The certificate (PEM), for https.", is_path=True)
    key: str = option("", help="The key of the certificate (PEM).", is_path=True)

    def __post_init__(self) -> None:
        """Checks endpoint and methods.

        Raises:
            ValueError: one of them is none.
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
    """What the connections to a server may cost.

    Attributes:
        connections: Most HTTP connections, and no more than half of the process's descriptors.
            Where there are too many, one that is idle is closed; where none is, a new one is
            answered 503.
        per_client: Most HTTP connections of one address; 0: half of all.
        header_bytes: Most bytes of the head of a request, or of the metadata of a gRPC call; more
            are answered 431, or RESOURCE_EXHAUSTED.
        header_time_out: Seconds within which the head of a request, and a TLS handshake, must be
            there.
        keepalive: Seconds for which an HTTP connection stays open between requests.
        headers: Most headers of a request; more are answered 431.
        requests: Most requests on one HTTP connection, which is closed behind the last; 0: any
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
        """Returns how many connections there may be at once."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            return self.connections
        return max(1, min(self.connections, descriptors // 2))

    @property
    def most_of_one(self) -> int:
        """Returns how many connections one client may have at once."""
        return self.per_client or max(1, self.most // 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener takes.

    Attributes:
        requests: Most requests under way; one more is answered 503.
        body: Most bytes of a body; a longer one is answered 413.
        bodies: Most bytes of all bodies that are read or worked on; one more is answered 503.
        time_out: Seconds after which a request is answered 504; one whose body does not come, 408.
        connection: What its connections may cost. Of listeners that share a port, the first one's.
        methods: The methods that are answered, others get 405; none: all are.
    """

    requests: int = 1000
    body: int = 64 << 20
    bodies: int = 1 << 30
    time_out: float = 5.0
    connection: ConnectionLimits = ConnectionLimits()
    methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What a server speaks TLS with.

    Attributes:
        cert: The certificate (PEM), with those between it and the root: both protocols speak TLS.
        key: Its key (PEM).
        client_ca: Whoever connects must show a certificate that one of these (PEM) has signed.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
