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
from modelflow.http.reply import BodyBudget, BodyLimits, RefusedError, Reply, reply_of_status
from modelflow.http.request import Handler, HttpRequest
from modelflow.http.server import Server, bind_socket, check_parser, tls_context
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.log import LEVELS

Waiting = TypeVar("Waiting")


class ReplyTimeouts(Generic[Waiting]):
    """Those that wait for an answer, in the order in which they give up. For the loop's thread.

    Attributes:
        seconds: How long each waits.
        until: Until when, in the seconds of `time.monotonic`; who adds to it without `add` looks
            whether there is a `timer`, which `begin` sets.
        timer: When it is looked who gives up; None: nobody waits. It stays where all have an
            answer: to make one for each request that is alone costs more than to look once.
    """

    def __init__(self, seconds: float, give_up: Callable[[Waiting], None]) -> None:
        """Takes how long each waits, and what is called with one that has waited so long."""
        self.seconds = seconds
        self._give_up = give_up
        self.until: dict[Waiting, float] = {}
        self.timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Has it looked who gives up, when the first may."""
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self._look)

    def add(self, waiting: Waiting) -> None:
        """Begins to wait."""
        self.until[waiting] = monotonic() + self.seconds
        if self.timer is None:
            self.begin()

    def forget(self, waiting: Waiting) -> None:
        """Waits no more. May be called again."""
        self.until.pop(waiting, None)

    def _look(self) -> None:
        self.timer = None
        now = monotonic()
        for waiting, until in list(self.until.items()):
            if waiting not in self.until:  # one that gave up has taken it along
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
    """A request, and the way back to who asked.

    Attributes:
        method: ``GET``, ``POST``, ...
        uri: The path, with the query.
        headers: Name in lower case -> value; of several of one name the last.
        body: What was sent.
        client: The address of who asked; ``""``: unknown.
        arrived: When it was whole, by the system's monotonic clock: who asked waits from then on.
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

    def answer(self, reply: Reply) -> None:
        """Answers; from any thread. A second answer, or one that comes too late, is dropped."""
        self._has_answer = True
        self._http_request.answer_soon(reply)

    def end(self, reply: Reply = _NO_ANSWER) -> None:
        """Notes that nobody works on it any more; to be called once, from any thread.

        Who asked and has no answer yet is told so, by ``reply``, and is not left to wait.
        """
        self._http_request.call_soon(partial(self._bodies.give_back, len(self.body)))
        if not self._has_answer:
            self.answer(reply)


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
        self._socket = bind_socket(endpoint)
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
            raise ValueError(
                f"endpoint {found}: the server itself answers there; choose another path"
            )
        with self._lock:
            if found in self._routes or own.is_tls != found.is_tls:
                raise ValueError(f"endpoint {found}: another node of this process listens there")
            self._routes = {**self._routes, found: route}  # the server's thread reads it as a whole
        return found

    @property
    def loop_queue(self) -> LoopQueue | None:
        """For what is to be done on the server's thread; None: nothing has come to it yet."""
        return None if self._server is None else self._server.loop_queue

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

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Finds out who answers a request; on the server's thread.

        Raises:
            RefusedError: nobody does, or the server itself.
        """
        return self._route(http_request).begin(http_request)

    def handle(self, http_request: HttpRequest) -> None:
        """Gives a whole request to who answers it; on the server's thread."""
        try:
            route = self._route(http_request)
        except RefusedError as error:  # it was taken away while the body came
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


_log = logging.getLogger(__name__)


class Listener:
    """Takes the requests of one endpoint.

    Attributes:
        endpoint: Where it listens; with the port that was given, where 0 was asked for.
        limits: What it takes.
        is_ready: Requests are taken.
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
        """Takes the address; listens only when `listen` is called.

        Args:
            endpoint: Where.
            limits: What it takes.
            take: Called on the server's thread with each request; False: it is not taken, and
                answered 503. Who takes one calls its `PendingRequest.end`.
            is_waiting: A request is answered when `PendingRequest.answer` was called; else at once,
                202.
            cert: The file with the certificate, for https.
            key: The file with its key.

        Raises:
            OSError: the address is in use, or not of this machine.
            ValueError: the path is taken by another listener, or certificate or key cannot be read.
            MissingDependencyError: the server's package is not installed.
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
        """Begins to take requests: everything that works on them is ready. May be called again.

        Raises:
            OSError: another process has begun to listen there since the address was taken.
        """
        with self._beginning:  # who comes second returns when it listens, not before
            if self.is_ready or self._is_closing:
                return
            self.is_ready = True
            self._port.listen()
            _log.log(LEVELS["NOTICE"], "listens at %s", self.endpoint)

    def close(self) -> None:
        """Ends it: requests under way are answered first, others get 503."""
        self._is_closing, self.is_ready = True, False
        loop_queue, is_idle = self._port.loop_queue, threading.Event()
        if loop_queue is not None and loop_queue.post(partial(self._tell_when_idle, is_idle)):
            is_idle.wait()
        leave(self._port, self)

    # -- on the server's thread -------------------------------------------------------------------

    def _tell_when_idle(self, is_idle: threading.Event) -> None:
        self._is_idle = is_idle
        if not self._under_way:
            is_idle.set()

    def begin(self, http_request: HttpRequest) -> BodyLimits:
        """Takes up a request whose body is still to come.

        Raises:
            RefusedError: there is no room for it, or it is not the time.
        """
        if self.limits.methods and http_request.head.method not in self.limits.methods:
            raise RefusedError(self._wrong_method(http_request.head.method))
        if not self.is_ready or self._under_way >= self.limits.requests:
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal()))
        self._under_way += 1
        http_request.on_end = partial(self._on_end, http_request)
        return self._body

    def handle(self, http_request: HttpRequest) -> None:
        """Gives a whole request to who works on it."""
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
