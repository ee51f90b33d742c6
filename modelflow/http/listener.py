"""The listener of one endpoint, and the port that several listeners share."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Generic, Protocol, TypeVar
from urllib.parse import unquote
from weakref import WeakValueDictionary

from modelflow.http.options import ConnectionLimits, Endpoint, Limits
from modelflow.http.reply import (
    BodyBudget,
    BodyLimits,
    RefusedError,
    Reply,
    busy_error,
    reply_of_status,
)
from modelflow.http.request import Handler, HttpRequest, StreamingReply
from modelflow.http.server import LAST_SECONDS, Server, bind_socket, check_parser, tls_context
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.log import LEVELS

Waiting = TypeVar("Waiting")


class ReplyTimeouts(Generic[Waiting]):
    """The requests that wait for a reply, in the order of their timeouts.

    Call the methods on the loop's thread.

    Attributes:
        seconds: The timeout of each request.
        until: The time of each timeout, in the seconds of `time.monotonic`. A caller that adds to
            this dict without `add` must call `begin` if `timer` is None.
        timer: The running timer, or None. The timer keeps running when all requests are answered.
            One late check costs less than a new timer for every single request.
    """

    def __init__(self, seconds: float, give_up: Callable[[Waiting], None]) -> None:
        """Stores the timeout, and the function to call with each late request."""
        self.seconds = seconds
        self._give_up = give_up
        self.until: dict[Waiting, float] = {}
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Starts the timer."""
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self._look)

    def add(self, waiting: Waiting) -> None:
        """Starts the timeout of a request."""
        self.until[waiting] = monotonic() + self.seconds
        if self.timer is None:
            self.begin()

    def forget(self, waiting: Waiting) -> None:
        """Ends the timeout of a request. May be called again."""
        self.until.pop(waiting, None)

    def _look(self) -> None:
        self.timer = None
        now = monotonic()
        for waiting, until in list(self.until.items()):
            if waiting not in self.until:  # a previous `_give_up` has removed this request
                continue
            if until > now:
                self.timer = asyncio.get_running_loop().call_later(until - now, self._look)
                return
            del self.until[waiting]
            self._give_up(waiting)


_NO_ANSWER = reply_of_status(
    HTTPStatus.INTERNAL_SERVER_ERROR, "the graph has ended the request without an answer"
)


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that waits for its reply.

    Attributes:
        method: ``GET``, ``POST``, ...
        uri: The path, with the query.
        headers: The values by name in lower case. Of several values of one name, the last.
        body: The body.
        client: The address of the client, or ``""`` if unknown.
        arrived: The time when the whole request had arrived, by the system's monotonic clock. The
            timeout counts from this time.
    """

    method: str
    uri: str
    headers: Mapping[str, str]
    body: bytes
    client: str
    _http_request: HttpRequest = field(repr=False)
    _bodies: BodyBudget = field(repr=False)
    arrived: float = field(default_factory=time.monotonic)
    _has_answer: bool = field(default=False, init=False, repr=False)

    def answer(self, reply: Reply | StreamingReply) -> None:
        """Answers the request, from any thread. A second or late reply is dropped."""
        self._has_answer = True
        self._http_request.answer_soon(reply)

    def end(self, reply: Reply = _NO_ANSWER) -> None:
        """Ends the processing of the request. Call this once, from any thread.

        If the request has no reply yet, the client gets ``reply`` instead of waiting for the
        timeout.
        """
        self._http_request.call_soon(partial(self._bodies.give_back, len(self.body)))
        if not self._has_answer:
            self.answer(reply)


# The paths that the server answers itself, without running the graph.
LIVE, READY = "/health/live", "/health/ready"
HEALTH = frozenset({"/health", LIVE, READY})
_TEXT = {"content-type": "text/plain"}


class Route(Handler, Protocol):
    """The handler of an endpoint's requests."""

    is_ready: bool


class Port:
    """An address of this machine with its routes. The last route that is removed closes the port.

    Attributes:
        endpoint: The address, with the real port if port 0 was requested.
    """

    def __init__(self, endpoint: Endpoint, limits: ConnectionLimits, cert: str, key: str) -> None:
        """Binds the address. Does not listen yet.

        Raises:
            OSError: The address is in use, or does not belong to this machine.
            ValueError: Certificate or key cannot be read.
            MissingDependencyError: The server's package is not installed.
        """
        check_parser()
        self._tls = tls_context(endpoint, cert, key)
        self._socket = bind_socket(endpoint)
        port = int(self._socket.getsockname()[1])
        self.endpoint = Endpoint(endpoint.host, port, "/", endpoint.is_tls)
        self._limits = limits
        self._routes: dict[Endpoint, Route] = {}
        self._server: Server | None = None
        self._lock = threading.Lock()

    def add(self, endpoint: Endpoint, route: Route) -> Endpoint:
        """Adds the handler of a path. Returns the endpoint with the port's number.

        Raises:
            ValueError: The path is taken, or only one of port and endpoint uses https.
        """
        own = self.endpoint
        found = Endpoint(endpoint.host, own.port, endpoint.path, endpoint.is_tls)
        if found.path.rstrip("/") in HEALTH:
            raise ValueError(
                f"endpoint {found}: the server itself answers there; choose another path"
            )
        with self._lock:
            if found in self._routes or own.is_tls != found.is_tls:
                raise ValueError(f"endpoint {found}: another node of this process listens there")
            # a new dict: the server's thread may be reading the old dict
            self._routes = {**self._routes, found: route}
        return found

    @property
    def loop_queue(self) -> LoopQueue | None:
        """Returns the queue of calls to the server's thread, or None before `listen`."""
        return None if self._server is None else self._server.loop_queue

    def listen(self) -> None:
        """Begins to accept connections. May be called again.

        Raises:
            OSError: Another process has begun to listen at the address.
        """
        with self._lock:
            if self._server is None:
                self._server = Server(self._socket, self, self._limits, self._tls)

    def remove(self, route: Route) -> bool:
        """Removes a route. Returns True after the last route: the caller then closes the port."""
        with self._lock:
            kept = {own: other for own, other in self._routes.items() if other is not route}
            was_there, self._routes = len(kept) < len(self._routes), kept
            return was_there and not kept

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Closes the port after the running requests are answered, or after ``seconds``."""
        if self._server is not None:
            self._server.close(seconds)
        self._socket.close()

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Finds the route of a request, on the server's thread.

        Raises:
            RefusedError: No route matches, or the server answers the path itself.
        """
        route = self._route(http_request)  # raises the answers about health
        if http_request.is_spare:
            raise busy_error()
        return route.begin(http_request)

    def handle(self, http_request: HttpRequest) -> None:
        """Passes a whole request to its route, on the server's thread."""
        try:
            route = self._route(http_request)
        except RefusedError as error:  # the route was removed while the body arrived
            http_request.answer(error.reply)
        else:
            route.handle(http_request)

    def _route(self, http_request: HttpRequest) -> Route:
        path, routes = unquote(http_request.path), self._routes
        if path in HEALTH:
            raise RefusedError(_health(path, routes))
        fitting = [endpoint for endpoint in routes if endpoint.serves(path)]
        if fitting:  # the longest path
            return routes[max(fitting, key=lambda endpoint: len(endpoint.path))]
        if not routes:
            message = "the server is being stopped"
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message))
        paths = ", ".join(sorted(endpoint.path for endpoint in routes))
        message = f"nothing is served at {path!r}; expected {paths}"
        raise RefusedError(reply_of_status(HTTPStatus.NOT_FOUND, message))


def _health(path: str, routes: dict[Endpoint, Route]) -> Reply:
    if path == LIVE or (routes and all(route.is_ready for route in routes.values())):
        return Reply(HTTPStatus.OK, b"ok", _TEXT)
    return Reply(HTTPStatus.SERVICE_UNAVAILABLE, b"not ready", {**_TEXT, "retry-after": "1"})


# The open ports, which nodes share. The references are weak because the routes own the ports.
_ports: WeakValueDictionary[tuple[str, int], Port] = WeakValueDictionary()
_lock = threading.Lock()


def join(
    endpoint: Endpoint, route: Route, limits: ConnectionLimits, cert: str, key: str
) -> tuple[Port, Endpoint]:
    """Adds a route at an endpoint. Opens the port, or shares a port that is open.

    Returns:
        The port, and the endpoint with the port's number.

    Raises:
        OSError, ValueError, MissingDependencyError: As in `Port` and `Port.add`.
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


def leave(port: Port, route: Route, seconds: float = LAST_SECONDS) -> None:
    """Removes a route that `join` has added. Closes the port after the last route.

    Args:
        port: The port.
        route: The route.
        seconds: Seconds to wait for slow clients.
    """
    with _lock:
        is_last = port.remove(route)
        if is_last:
            del _ports[port.endpoint.host, port.endpoint.port]
    if is_last:
        port.close(seconds)


_log = logging.getLogger(__name__)


class Listener:
    """The receiver of the requests of one endpoint.

    Attributes:
        endpoint: The endpoint, with the real port if port 0 was requested.
        limits: The limits on requests.
        is_ready: Whether requests are accepted.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limits: Limits,
        take: Callable[[PendingRequest], bool],
        *,
        is_waiting: bool = True,
        cert: str = "",
        key: str = "",
    ) -> None:
        """Binds the address. `listen` begins to listen.

        Args:
            endpoint: The endpoint.
            limits: The limits on requests.
            take: Called on the server's thread with each request. If the function returns False,
                the request is answered 503. Otherwise the receiver must call `PendingRequest.end`
                later.
            is_waiting: Whether a request waits for `PendingRequest.answer`. If False, each request
                is answered 202 at once.
            cert: The file with the certificate, for https.
            key: The file with its key.

        Raises:
            OSError: The address is in use, or does not belong to this machine.
            ValueError: Another listener has the path, or certificate or key cannot be read.
            MissingDependencyError: The server's package is not installed.
        """
        self.limits = limits
        self.is_waiting = is_waiting
        self.is_ready = False
        self._take = take
        self._body = BodyLimits(limits.body, BodyBudget(limits.bodies), limits.time_out)
        self._patience = ReplyTimeouts(limits.time_out, self._give_up)
        self._under_way = 0  # counted on the server's thread
        self._is_idle: threading.Event | None = None
        self._is_closing = False
        self._beginning = threading.Lock()
        self._port, self.endpoint = join(endpoint, self, limits.connection, cert, key)

    def listen(self) -> None:
        """Begins to accept requests. May be called again.

        Call this method when the graph is ready to process requests.

        Raises:
            OSError: Another process has begun to listen at the address.
        """
        with self._beginning:  # a second caller also returns only when the port listens
            if self.is_ready or self._is_closing:
                return
            self.is_ready = True
            self._port.listen()
            _log.log(LEVELS["NOTICE"], "listens at %s", self.endpoint)

    def post(self, call: Callable[[], None]) -> bool:
        """Calls ``call`` on the server's thread. Returns False before `listen` and after the end.

        Args:
            call: The function.
        """
        loop_queue = self._port.loop_queue
        return loop_queue is not None and loop_queue.post(call)

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Ends the listener after the running requests are answered. Further requests get 503.

        Args:
            seconds: Seconds to wait for clients that read their replies slowly.
        """
        self._is_closing, self.is_ready = True, False
        is_idle = threading.Event()
        if self.post(partial(self._tell_when_idle, is_idle)):
            is_idle.wait()
        leave(self._port, self, seconds)

    # -- on the server's thread -------------------------------------------------------------------

    def _tell_when_idle(self, is_idle: threading.Event) -> None:
        self._is_idle = is_idle
        if not self._under_way:
            is_idle.set()

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Admits a request before its body arrives.

        Raises:
            RefusedError: The method is not allowed, there are too many requests, or the listener is
                not ready.
        """
        if self.limits.methods and http_request.head.method not in self.limits.methods:
            raise RefusedError(self._wrong_method(http_request.head.method))
        if not self.is_ready or self._under_way >= self.limits.requests:
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal()))
        self._under_way += 1
        http_request.on_end = partial(self._on_end, http_request)
        return self._body

    def handle(self, http_request: HttpRequest) -> None:
        """Passes a whole request to the function ``take``."""
        if not self._take(self._request(http_request)):
            self._body.budget.give_back(len(http_request.body))
            message = "too many requests, or the server is being stopped"
            http_request.answer(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message))
        elif self.is_waiting:
            self._patience.add(http_request)
        else:
            http_request.answer(Reply(HTTPStatus.ACCEPTED, b""))

    def _on_end(self, http_request: HttpRequest) -> None:
        self._patience.forget(http_request)
        self._under_way -= 1
        if not self._under_way and self._is_idle is not None:
            self._is_idle.set()

    def _give_up(self, http_request: HttpRequest) -> None:
        message = f"no answer within {self.limits.time_out:g} s"
        http_request.answer(reply_of_status(HTTPStatus.GATEWAY_TIMEOUT, message))

    def _wrong_method(self, method: str) -> Reply:
        allowed = ", ".join(self.limits.methods)
        message = f"got the method {method}; expected {allowed}"
        reply = reply_of_status(HTTPStatus.METHOD_NOT_ALLOWED, message)
        return replace(reply, headers={**reply.headers, "allow": allowed})

    def _refusal(self) -> str:
        if self._is_closing:
            return "the server is being stopped"
        return "too many requests" if self.is_ready else "the server is not ready yet"

    def _request(self, http_request: HttpRequest) -> PendingRequest:
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in http_request.head.headers
        }
        path, mark, query = http_request.head.target.partition("?")
        return PendingRequest(
            http_request.head.method,
            unquote(path) + mark + query,
            headers,
            http_request.body,
            http_request.client,
            http_request,
            self._body.budget,
        )
