"""A port of this machine, shared by the listeners whose endpoints name it."""

import threading
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote
from weakref import WeakValueDictionary

from modelflow.http.body import BodyLimits, RefusedError
from modelflow.http.endpoint import Endpoint
from modelflow.http.exchange import Exchange, Handler
from modelflow.http.limits import ConnectionLimits
from modelflow.http.mailbox import Mailbox
from modelflow.http.reply import Reply, reply_of_status
from modelflow.http.server import Server, bound_socket, check_parser, tls_context

__all__ = ["Port", "Route", "join", "leave"]

# Answered by the server itself: a probe runs no graph.
LIVE, READY = "/health/live", "/health/ready"
HEALTH = frozenset({"/health", LIVE, READY})
_TEXT = {"content-type": "text/plain"}


class Route(Handler, Protocol):
    """Who answers the requests of an endpoint."""

    is_ready: bool


class Port:
    """An address of this machine. It belongs to its routes, and is given up with the last of them.

    Attributes:
        endpoint: Its address, with the port that was given where 0 was asked for.
    """

    def __init__(self, endpoint: Endpoint, limits: ConnectionLimits, cert: str, key: str) -> None:
        """Takes the address; does not listen yet.

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: certificate or key cannot be read.
            MissingDependencyError: the server's package is not installed.
        """
        check_parser()
        self._tls = tls_context(endpoint, cert, key)
        self._socket = bound_socket(endpoint)
        port = int(self._socket.getsockname()[1])
        self.endpoint = Endpoint(endpoint.host, port, "/", endpoint.is_tls)
        self._limits = limits
        self._routes: dict[Endpoint, Route] = {}
        self._server: Server | None = None
        self._lock = threading.Lock()

    def add(self, endpoint: Endpoint, route: Route) -> Endpoint:
        """Adds who answers under a path; returns the endpoint with the port's number.

        Raises:
            ValueError: the path is taken, or one of the two is https.
        """
        own = self.endpoint
        found = Endpoint(endpoint.host, own.port, endpoint.path, endpoint.is_tls)
        if found.path.rstrip("/") in HEALTH:
            message = f"endpoint {found}: the server itself answers there; choose another path"
            raise ValueError(message)
        with self._lock:
            if found in self._routes or own.is_tls != found.is_tls:
                message = f"endpoint {found}: another node of this process listens there"
                raise ValueError(message)
            self._routes = {**self._routes, found: route}  # the server's thread reads it as a whole
        return found

    @property
    def mailbox(self) -> Mailbox | None:
        """For what is to be done on the server's thread; None: nothing has come to it yet."""
        return None if self._server is None else self._server.mailbox

    def listen(self) -> None:
        """Begins to take connections. May be called again.

        Raises:
            OSError: another process has begun to listen there.
        """
        with self._lock:
            if self._server is None:
                self._server = Server(self._socket, self, self._limits, self._tls)

    def remove(self, route: Route) -> bool:
        """Takes who answers away; True if it was the last, and the port is to be closed."""
        with self._lock:
            kept = {own: other for own, other in self._routes.items() if other is not route}
            was_there, self._routes = len(kept) < len(self._routes), kept
            return was_there and not kept

    def close(self) -> None:
        """Gives the address up: requests under way are answered first."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    def begin(self, exchange: Exchange) -> BodyLimits:
        """Finds out who answers a request; on the server's thread.

        Raises:
            RefusedError: nobody does, or the server itself.
        """
        return self._route(exchange).begin(exchange)

    def handle(self, exchange: Exchange) -> None:
        """Gives a whole request to who answers it; on the server's thread."""
        try:
            route = self._route(exchange)
        except RefusedError as error:  # it was taken away while the body came
            exchange.answer(error.reply)
        else:
            route.handle(exchange)

    def _route(self, exchange: Exchange) -> Route:
        path, routes = unquote(exchange.path), self._routes
        if path in HEALTH:
            raise RefusedError(_health(path, routes))
        fitting = [endpoint for endpoint in routes if endpoint.serves(path)]
        if fitting:  # the longest path
            return routes[max(fitting, key=lambda endpoint: len(endpoint.path))]
        if not routes:
            message = "the server is being stopped"
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message))
        paths = ", ".join(sorted(endpoint.path for endpoint in routes))
        message = f"there is nothing at {path!r}; expected {paths}"
        raise RefusedError(reply_of_status(HTTPStatus.NOT_FOUND, message))


def _health(path: str, routes: dict[Endpoint, Route]) -> Reply:
    if path == LIVE or (routes and all(route.is_ready for route in routes.values())):
        return Reply(HTTPStatus.OK, b"ok", _TEXT)
    return Reply(HTTPStatus.SERVICE_UNAVAILABLE, b"not ready", {**_TEXT, "retry-after": "1"})


# To find the port that another node has taken: they are their routes', which give them up.
_ports: WeakValueDictionary[tuple[str, int], Port] = WeakValueDictionary()
_lock = threading.Lock()


def join(
    endpoint: Endpoint, route: Route, limits: ConnectionLimits, cert: str, key: str
) -> tuple[Port, Endpoint]:
    """Lets ``route`` answer at ``endpoint``, whose port may be there already.

    Returns:
        The port, and the endpoint with the port's number.

    Raises:
        OSError, ValueError, MissingDependencyError: see `Port` and `Port.add`.
    """
    with _lock:
        port = _ports.get((endpoint.host, endpoint.port)) if endpoint.port else None
        if port is not None:
            return port, port.add(endpoint, route)
        port = Port(endpoint, limits, cert, key)
        try:
            found = port.add(endpoint, route)
        except ValueError:
            port.close()
            raise
        _ports[found.host, found.port] = port
        return port, found


def leave(port: Port, route: Route) -> None:
    """Ends what `join` began; the last one gives the port up."""
    with _lock:
        is_last = port.remove(route)
        if is_last:
            del _ports[port.endpoint.host, port.endpoint.port]
    if is_last:
        port.close()
