"""What flow units that take requests have in common: from a listener to a source's buffers."""

import threading
import time
from collections import deque
from http import HTTPStatus
from typing import Any

from modelflow.buffer import Buffer
from modelflow.http.endpoint import read_endpoint
from modelflow.http.limits import ConnectionLimits, Limits
from modelflow.http.listener import Listener
from modelflow.http.options import ListenOptions
from modelflow.http.payload import TEXT
from modelflow.http.reply import reply_of_status
from modelflow.http.request import PendingRequest
from modelflow.unit.unit import Context

__all__ = ["REQUEST", "RequestSource"]

# The key of the session's context under which the request waits for its answer.
REQUEST = "http_request"
_STOPPED = reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, "the server is being stopped")


class RequestSource:
    """The requests that a source has not given yet, and how it is woken for them.

    The server's thread adds them, the source's takes them; while there are none the source holds,
    and costs nothing.
    """

    def __init__(self, options: ListenOptions, *, is_waiting: bool, time_out: float) -> None:
        """Takes the address; requests are taken when `listen` is called.

        Args:
            options: Where to listen, and what to take.
            is_waiting: The graph answers the requests.
            time_out: Seconds after which it need not any more.

        Raises:
            OSError, ValueError, MissingDependencyError: see `Listener`.
        """
        self._lock = threading.Lock()
        self._waiting: deque[PendingRequest] = deque()
        self._wake: Any = None
        self._most = options.max_requests
        self._is_waiting = is_waiting
        self._is_over = False
        limits = Limits(
            options.max_requests,
            options.max_body_bytes,
            options.max_bodies_bytes,
            time_out,
            ConnectionLimits(
                options.max_connections,
                options.max_connections_per_client,
                options.max_header_bytes,
                options.header_time_out_ms / 1e3,
                options.keepalive_timeout_sec,
            ),
        )
        self.listener = Listener(
            read_endpoint(options.endpoint),
            limits,
            self._add,
            is_waiting=is_waiting,
            cert=options.cert,
            key=options.key,
        )

    def listen(self) -> None:
        """Begins to take requests; called when every unit of the graph is open.

        Raises:
            OSError: see `Listener.listen`.
        """
        self.listener.listen()

    def process(self, ctx: Context) -> None:
        """Gives the requests that wait, or holds until there is one."""
        self.listen()  # a source is called first when everything is open
        with self._lock:
            taken, self._waiting = self._waiting, deque()
            self._wake = ctx.send_event
            ctx.hold()
        for request in taken:
            ctx.open_session(
                self._buffer(request),
                context={REQUEST: request} if self._is_waiting else None,
                deadline=self._left(request) if self._is_waiting else None,
                on_end=request.end,
            )

    def _left(self, request: PendingRequest) -> float:
        """Returns the seconds that who asked still waits: a busy machine may have used up some."""
        return self.listener.limits.time_out + request.arrived - time.monotonic()

    def close(self) -> None:
        """Ends it: requests under way are answered first."""
        with self._lock:
            self._is_over = True
            dropped, self._waiting = self._waiting, deque()
        for request in dropped:  # the graph has not seen them: they may be sent again
            request.end(_STOPPED)
        self.listener.close()

    def _add(self, request: PendingRequest) -> bool:
        with self._lock:
            if self._is_over or len(self._waiting) >= self._most:
                return False
            self._waiting.append(request)
            wake, self._wake = self._wake, None
            if wake is not None and not wake():  # the flow is being stopped
                self._waiting.pop()
                return False
        return True

    def _buffer(self, request: PendingRequest) -> Buffer:
        meta: dict[str, Any] = {
            "method": request.method,
            "uri": request.uri,
            "headers": request.headers,
            "client": request.client,
            "endpoint": str(self.listener.endpoint),
            "size": len(request.body),
            TEXT: True,
        }
        return Buffer(request.body, meta)
