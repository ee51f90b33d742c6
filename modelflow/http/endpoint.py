"""Where a server listens: ``http://127.0.0.1:8080/path``."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from modelflow.errors import did_you_mean

__all__ = ["Endpoint", "join_address", "read_endpoint"]

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
        message = f"endpoint: got {text!r} ({error}); {expected}"
        raise ValueError(message) from error
    if parts.scheme not in _PORTS:
        near = did_you_mean(parts.scheme, _PORTS)
        message = f"endpoint: got {text!r}, whose scheme is {parts.scheme!r}{near}; {expected}"
        raise ValueError(message)
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        message = f"endpoint: got {text!r}; {expected}"
        raise ValueError(message)
    return Endpoint(
        parts.hostname,
        _PORTS[parts.scheme] if port is None else port,
        parts.path or "/",
        parts.scheme == "https",
    )
