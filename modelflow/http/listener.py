"""Takes the requests of one endpoint, and waits for their answers."""

import asyncio
import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from modelflow.http.body import BodyBudget, RefusedError, read_body
from modelflow.http.endpoint import Endpoint
from modelflow.http.limits import Limits
from modelflow.http.port import join, leave
from modelflow.http.reply import Reply, reply_of_status
from modelflow.http.request import PendingRequest
from modelflow.log import LEVELS

__all__ = ["Listener"]

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
        self._bodies = BodyBudget(limits.bodies)
        self._under_way = 0
        self._changed = threading.Condition()
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
        with self._changed:
            self._is_closing, self.is_ready = True, False
            while self._under_way:
                self._changed.wait()
        leave(self._port, self)

    async def handle(self, scope: Any, receive: Any) -> Reply:
        """Returns the answer to a request; called on the server's thread."""
        with self._changed:
            is_taken = self.is_ready and self._under_way < self.limits.requests
            self._under_way += is_taken
        if not is_taken:
            return reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal())
        try:
            return await self._answered(scope, receive)
        except RefusedError as error:
            return error.reply
        finally:
            with self._changed:
                self._under_way -= 1
                if not self._under_way:
                    self._changed.notify_all()

    def _refusal(self) -> str:
        if self._is_closing:
            return "the server is being stopped"
        return "too many requests" if self.is_ready else "the server is not ready yet"

    async def _answered(self, scope: Any, receive: Any) -> Reply:
        body = await self._body(receive)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        if not self._take(self._request(scope, body, loop, answer)):
            self._bodies.give_back(len(body))
            message = "too many requests, or the server is being stopped"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message)
        if not self.is_waiting:
            return Reply(HTTPStatus.ACCEPTED, b"")
        try:
            async with asyncio.timeout(self.limits.time_out):
                return await answer
        except TimeoutError:
            message = f"no answer within {self.limits.time_out:g} s"
            return reply_of_status(HTTPStatus.GATEWAY_TIMEOUT, message)

    async def _body(self, receive: Any) -> bytes:
        try:
            async with asyncio.timeout(self.limits.time_out):
                return await read_body(receive, self.limits.body, self._bodies)
        except TimeoutError as error:
            message = f"the body was not there within {self.limits.time_out:g} s"
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, message) from error

    def _request(
        self,
        scope: Any,
        body: bytes,
        loop: asyncio.AbstractEventLoop,
        answer: "asyncio.Future[Reply]",
    ) -> PendingRequest:
        query = scope.get("query_string", b"").decode("latin-1")
        client = scope.get("client")
        return PendingRequest(
            scope["method"],
            scope["path"] + (f"?{query}" if query else ""),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body,
            f"{client[0]}:{client[1]}" if client else "",
            loop,
            answer,
            self._bodies,
        )
