"""The options of flow units that listen."""

from dataclasses import dataclass

from modelflow.errors import did_you_mean
from modelflow.http.endpoint import read_endpoint
from modelflow.unit.option import option

__all__ = ["ListenOptions"]

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
                message = f"methods: got {method!r}; expected any of {', '.join(METHODS)}{near}"
                raise ValueError(message)
