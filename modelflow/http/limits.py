"""What a server and its listeners take before they refuse."""

import resource
from dataclasses import dataclass

__all__ = ["ConnectionLimits", "Limits"]


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
