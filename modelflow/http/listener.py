"""Takes the requests of one endpoint, and waits for their answers."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import unquote

from modelflow.http.body import BodyBudget, BodyLimits, RefusedError
from modelflow.http.endpoint import Endpoint
from modelflow.http.exchange import Exchange
from modelflow.http.limits import Limits
from modelflow.http.patience import Patience
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
        self._body = BodyLimits(limits.body, BodyBudget(limits.bodies), limits.time_out)
        self._patience = Patience(limits.time_out, self._give_up)
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
        mailbox, is_idle = self._port.mailbox, threading.Event()
        if mailbox is not None and mailbox.post(partial(self._tell_when_idle, is_idle)):
            is_idle.wait()
        leave(self._port, self)

    # -- on the server's thread -------------------------------------------------------------------

    def _tell_when_idle(self, is_idle: threading.Event) -> None:
        self._is_idle = is_idle
        if not self._under_way:
            is_idle.set()

    def begin(self, exchange: Exchange) -> BodyLimits:
        """Takes up a request whose body is still to come.

        Raises:
            RefusedError: there is no room for it, or it is not the time.
        """
        if self.limits.methods and exchange.head.method not in self.limits.methods:
            raise RefusedError(self._wrong_method(exchange.head.method))
        if not self.is_ready or self._under_way >= self.limits.requests:
            raise RefusedError(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal()))
        self._under_way += 1
        exchange.on_end = partial(self._ended, exchange)
        return self._body

    def handle(self, exchange: Exchange) -> None:
        """Gives a whole request to who works on it."""
        if not self._take(self._request(exchange)):
            self._body.budget.give_back(len(exchange.body))
            message = "too many requests, or the server is being stopped"
            exchange.answer(reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, message))
        elif self.is_waiting:
            self._patience.add(exchange)
        else:
            exchange.answer(Reply(HTTPStatus.ACCEPTED, b""))

    def _ended(self, exchange: Exchange) -> None:
        self._patience.forget(exchange)
        self._under_way -= 1
        if not self._under_way and self._is_idle is not None:
            self._is_idle.set()

    def _give_up(self, exchange: Exchange) -> None:
        message = f"no answer within {self.limits.time_out:g} s"
        exchange.answer(reply_of_status(HTTPStatus.GATEWAY_TIMEOUT, message))

    def _wrong_method(self, method: str) -> Reply:
        allowed = ", ".join(self.limits.methods)
        message = f"got the method {method}; expected {allowed}"
        reply = reply_of_status(HTTPStatus.METHOD_NOT_ALLOWED, message)
        return replace(reply, headers={**reply.headers, "allow": allowed})

    def _refusal(self) -> str:
        if self._is_closing:
            return "the server is being stopped"
        return "too many requests" if self.is_ready else "the server is not ready yet"

    def _request(self, exchange: Exchange) -> PendingRequest:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.head.headers
        }
        path, mark, query = exchange.head.target.partition("?")
        return PendingRequest(
            exchange.head.method,
            unquote(path) + mark + query,
            headers,
            exchange.body,
            exchange.client,
            exchange,
            self._body.budget,
        )
