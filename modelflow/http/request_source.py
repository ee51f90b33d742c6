"""The source of flow units that receive requests: from a listener to the source's buffers."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from modelflow.buffer import Buffer
from modelflow.http.listener import Listener, PendingRequest
from modelflow.http.options import ConnectionLimits, Limits, ListenOptions, read_endpoint
from modelflow.http.reply import TEXT, reply_of_status
from modelflow.unit.unit import Context, Opening, StreamContext

# The key in the session's context of the request that waits for its reply.
REQUEST = "http_request"
_STOPPED = reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, "the server is being stopped")


class RequestSource:
    """The queue of requests of a source, and their way into the graph.

    While the source holds, the server's thread admits the requests of each loop turn to the
    graph itself. If the graph has no room, the thread wakes the source. The source then waits for
    room and takes all requests that were queued meanwhile.
    """

    def __init__(self, options: ListenOptions, *, is_waiting: bool, time_out: float) -> None:
        """Binds the address. `listen` begins to accept requests.

        Args:
            options: The endpoint and the limits.
            is_waiting: Whether the graph answers the requests.
            time_out: Seconds after which a request is answered 504.

        Raises:
            OSError, ValueError, MissingDependencyError: As in `Listener`.
        """
        self._lock = threading.Lock()
        self._waiting: deque[PendingRequest] = deque()
        self._context: StreamContext | None = None  # set while the source holds
        self._is_due = False
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
            options.methods,
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
        """Begins to accept requests. Called when every unit of the graph is open.

        Raises:
            OSError: As in `Listener.listen`.
        """
        self.listener.listen()

    def process(self, ctx: Context) -> None:
        """Opens sessions for the queued requests, and holds until an event wakes the source."""
        assert isinstance(ctx, StreamContext)  # sources get a StreamContext
        self.listen()  # the first call of a source means that all units are open
        with self._lock:
            taken, self._waiting = self._waiting, deque()
            self._context = ctx
            ctx.hold()
        if ctx.openings is not None:
            ctx.openings += [self._opening(ctx, request) for request in taken]

    def _opening(self, ctx: StreamContext, request: PendingRequest) -> Opening:
        return ctx.opening(
            self._buffer(request),
            context={REQUEST: request} if self._is_waiting else None,
            deadline=self._remaining(request) if self._is_waiting else None,
            on_end=request.end,
        )

    def _remaining(self, request: PendingRequest) -> float:
        """Returns the remaining seconds of a request, which may have waited on a busy machine."""
        return self.listener.limits.time_out + request.arrived - time.monotonic()

    def close(self) -> None:
        """Ends the source after the running requests are answered. Queued requests are refused."""
        with self._lock:
            self._is_over = True
            dropped, self._waiting = self._waiting, deque()
        self._drop(dropped)
        self.listener.close()

    def _add(self, request: PendingRequest) -> bool:
        """Queues a request on the server's thread, or returns False to refuse the request."""
        with self._lock:
            if self._is_over or len(self._waiting) >= self._most:
                return False
            # otherwise the scheduled call takes this request too
            if self._context is not None and not self._is_due:
                if self._context.admission is None or not self._context.admission.reserve():
                    return False
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._enter, self._context)
            self._waiting.append(request)
        return True

    def _enter(self, ctx: StreamContext) -> None:
        """Admits the requests of this loop turn to the graph, on the server's thread."""
        assert ctx.admission is not None  # `_add` has reserved
        with self._lock:
            self._is_due = False
            taken, self._waiting = self._waiting, deque()
        try:
            if not ctx.admission.admit([self._opening(ctx, request) for request in taken]):
                self._wake_source(ctx, taken)
        finally:
            ctx.admission.release()

    def _wake_source(self, ctx: StreamContext, taken: deque[PendingRequest]) -> None:
        """Queues the requests again, and wakes the source, which waits for room."""
        with self._lock:
            self._waiting.extendleft(reversed(taken))
            self._context = None
        if not ctx.send_event():  # the flow was aborted
            with self._lock:
                dropped, self._waiting = self._waiting, deque()
            self._drop(dropped)

    def _drop(self, requests: Iterable[PendingRequest]) -> None:
        """Refuses requests that the graph has not seen. Clients may send them again."""
        for request in requests:
            request.end(_STOPPED)

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
