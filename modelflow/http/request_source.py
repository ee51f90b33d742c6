"""What flow units that take requests have in common: from a listener to a source's buffers."""

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

# The key of the session's context under which the request waits for its answer.
REQUEST = "http_request"
_STOPPED = reply_of_status(HTTPStatus.SERVICE_UNAVAILABLE, "the server is being stopped")


class RequestSource:
    """The requests that a source has not given yet, and how they come into the graph.

    While the source holds, the server's thread puts in itself what came in one turn of its loop.
    Where there is no room the source is woken, which waits for it, and takes what has gathered
    meanwhile.
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
        self._context: StreamContext | None = None  # of the source while it holds
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
        """Begins to take requests; called when every unit of the graph is open.

        Raises:
            OSError: see `Listener.listen`.
        """
        self.listener.listen()

    def process(self, ctx: Context) -> None:
        """Gives the requests that wait, and holds until there is no room for others."""
        assert isinstance(ctx, StreamContext)  # a source has that one
        self.listen()  # a source is called first when everything is open
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
        """Returns the seconds that who asked still waits: a busy machine may have used up some."""
        return self.listener.limits.time_out + request.arrived - time.monotonic()

    def close(self) -> None:
        """Ends it: requests under way are answered first."""
        with self._lock:
            self._is_over = True
            dropped, self._waiting = self._waiting, deque()
        self._drop(dropped)
        self.listener.close()

    def _add(self, request: PendingRequest) -> bool:
        """Takes a request; on the server's thread. False: it is not taken."""
        with self._lock:
            if self._is_over or len(self._waiting) >= self._most:
                return False
            if self._context is not None and not self._is_due:  # else who is due takes it as well
                if self._context.admission is None or not self._context.admission.reserve():
                    return False
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._enter, self._context)
            self._waiting.append(request)
        return True

    def _enter(self, ctx: StreamContext) -> None:
        """Puts in what came in this turn of the server's loop; on its thread."""
        assert ctx.admission is not None  # it has reserved
        with self._lock:
            self._is_due = False
            taken, self._waiting = self._waiting, deque()
        try:
            if not ctx.admission.admit([self._opening(ctx, request) for request in taken]):
                self._wake_source(ctx, taken)
        finally:
            ctx.admission.release()

    def _wake_source(self, ctx: StreamContext, taken: deque[PendingRequest]) -> None:
        """Has the source give what there is no room for yet."""
        with self._lock:
            self._waiting.extendleft(reversed(taken))
            self._context = None
        if not ctx.send_event():  # the flow was aborted
            with self._lock:
                dropped, self._waiting = self._waiting, deque()
            self._drop(dropped)

    def _drop(self, requests: Iterable[PendingRequest]) -> None:
        """Refuses what the graph has not seen: it may be sent again."""
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
