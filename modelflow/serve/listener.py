"""From a server's requests to whoever takes them, one endpoint each; and the answers back.

Endpoints with the same host and port share a server, which ends with the last of them.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from modelflow.log import LEVELS
from modelflow.serve.endpoint import Endpoint
from modelflow.serve.reply import Reply, reply_of_status
from modelflow.serve.request import PendingRequest
from modelflow.serve.server import Server

__all__ = ["Limits", "Listener"]

_HEALTH = "/health"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener takes.

    Attributes:
        requests: Most requests under way; one more is answered 503.
        body: Most bytes of a body; a longer one is answered 413.
        time_out: Seconds after which a request is answered 504; one whose body does not come, 408.
        keepalive: Seconds for which a connection stays open between requests.
    """

    requests: int = 1000
    body: int = 64 << 20
    time_out: float = 5.0
    keepalive: float = 200.0


class Listener:
    """Takes the requests of one endpoint.

    Attributes:
        endpoint: Where it listens; with the port that was given, where 0 was asked for.
        limits: What it takes.
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
        """Begins to listen.

        Args:
            endpoint: Where.
            limits: What it takes.
            take: Called on the server's thread with each request; False: it is not taken, and
                answered 503.
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
        self._take = take
        self._under_way = 0
        self._is_idle = threading.Condition()
        self._is_closing = False
        self.endpoint = _switchboard.add(self, endpoint, limits.keepalive, cert, key)
        _log.log(LEVELS["NOTICE"], "listens at %s", self.endpoint)

    def close(self) -> None:
        """Ends it: requests under way are answered first, others get 503. May be called again."""
        with self._is_idle:
            self._is_closing = True
            while self._under_way:
                self._is_idle.wait()
        _switchboard.remove(self)

    async def handle(self, scope: Any, receive: Any) -> Reply:
        """Returns the answer to a request; called on the server's thread."""
        with self._is_idle:
            is_full = self._under_way >= self.limits.requests
            is_taken = not is_full and not self._is_closing
            self._under_way += is_taken
        if not is_taken:
            reason = "too many requests" if is_full else "the server is being stopped"
            return reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        try:
            return await self._answered(scope, receive)
        finally:
            with self._is_idle:
                self._under_way -= 1
                if not self._under_way:
                    self._is_idle.notify_all()

    async def _answered(self, scope: Any, receive: Any) -> Reply:
        try:
            async with asyncio.timeout(self.limits.time_out):
                body = await _read_body(receive, self.limits.body)
        except TimeoutError:
            message = f"the body was not there within {self.limits.time_out:g} s"
            return reply_of_status(HTTPStatus.REQUEST_TIMEOUT, message)
        if body is None:
            message = f"the body has more than {self.limits.body} bytes"
            return reply_of_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        if not self._take(_request(scope, body, loop, answer)):
            message = "too many requests, or the server is being stopped"
            return reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message)
        if not self.is_waiting:
            return Reply(HTTPStatus.ACCEPTED, b"")
        try:
            async with asyncio.timeout(self.limits.time_out):
                return await answer
        except TimeoutError:
            message = f"no answer within {self.limits.time_out:g} s"
            return reply_of_status(HTTPStatus.GATEWAY_TIMEOUT, message)


class _Switchboard:
    """The servers of the process, and whose requests are whose."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, int], tuple[Server, dict[Endpoint, Listener]]] = {}

    def add(
        self, listener: Listener, endpoint: Endpoint, keepalive: float, cert: str, key: str
    ) -> Endpoint:
        place = endpoint.host, endpoint.port
        with self._lock:
            if place not in self._servers or endpoint.port == 0:
                routes: dict[Endpoint, Listener] = {}
                server = Server(
                    endpoint, _Application(routes), keepalive_timeout=keepalive, cert=cert, key=key
                )
                place = endpoint.host, server.endpoint.port
                self._servers[place] = server, routes
            server, routes = self._servers[place]
            found = Endpoint(endpoint.host, place[1], endpoint.path, endpoint.is_tls)
            if found in routes or server.endpoint.is_tls != endpoint.is_tls:
                message = f"endpoint {found}: another node of this process listens there"
                raise ValueError(message)
            routes[found] = listener
            return found

    def remove(self, listener: Listener) -> None:
        ended = None
        with self._lock:
            for place, (server, routes) in list(self._servers.items()):
                for found in [own for own, other in routes.items() if other is listener]:
                    del routes[found]
                    if not routes:
                        ended = server
                        del self._servers[place]
        if ended is not None:
            ended.close()


_switchboard = _Switchboard()


class _Application:
    """The ASGI application of a server: finds the listener with the longest path that fits."""

    def __init__(self, routes: dict[Endpoint, Listener]) -> None:
        self._routes = routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        fitting = [endpoint for endpoint in list(self._routes) if endpoint.serves(scope["path"])]
        listener = None
        if fitting:
            listener = self._routes.get(max(fitting, key=lambda endpoint: len(endpoint.path)))
        if listener is not None:
            reply = await listener.handle(scope, receive)
        elif not self._routes:
            message = "the server is being stopped"
            reply = reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message)
        elif scope["path"] == _HEALTH:
            reply = Reply(HTTPStatus.OK, b"ok", {"content-type": "text/plain"})
        else:
            paths = ", ".join(sorted(endpoint.path for endpoint in self._routes))
            message = f"there is nothing at {scope['path']!r}; expected {paths}"
            reply = reply_of_status(HTTPStatus.NOT_FOUND, message)
        headers = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in reply.headers.items()
        ]
        headers.append((b"content-length", str(len(reply.body)).encode()))
        start = {"type": "http.response.start", "status": int(reply.status), "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": reply.body})


async def _read_body(receive: Any, most: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(parts)
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _request(
    scope: Any, body: bytes, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Reply]"
) -> PendingRequest:
    query = scope.get("query_string", b"").decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    client = scope.get("client")
    return PendingRequest(
        scope["method"],
        scope["path"] + (f"?{query}" if query else ""),
        headers,
        body,
        f"{client[0]}:{client[1]}" if client else "",
        loop,
        answer,
    )
