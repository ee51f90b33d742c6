"""An HTTP server as the target of a load test, with connections on an event-loop thread."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from modelflow.errors import ConfigError, MissingDependencyError
from modelflow.insight.load.http_request import HttpBody, HttpUrl, request_of
from modelflow.insight.load.target import Attempt
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from modelflow.insight.load.http_connection import HttpConnection


# Seconds of waiting for the first connection, which shows whether the server runs.
_PATIENCE = 10.0


class HttpTarget:
    """The target of a load test that sends a list of requests in a cycle over HTTP/1.1.

    Each request in flight has its own connection. Connections are kept and reused. A reply with a
    status of 2xx is a success; other replies fail as, for example, ``HTTP 503``. A connection that
    ends before the reply fails with the name of the exception, or ``no answer``. The server may
    have closed a kept connection before any byte of the reply. The request is then sent again on
    another connection.

    ::

        with HttpTarget("http://127.0.0.1:8500/v1/models/m:predict", [HttpBody(text)]) as target:
            report = run(target, LoadOptions(rate=200))
    """

    def __init__(
        self,
        url: str,
        bodies: Sequence[HttpBody] = (),
        *,
        method: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        ca: Path | None = None,
    ) -> None:
        """Makes the bytes of the requests; does not connect.

        Args:
            url: The URL, with the scheme http or https.
            bodies: The bodies of the requests, in a cycle. Without any, requests have no body.
            method: The HTTP method; None for POST with bodies, and GET without.
            headers: Names and values, in addition to those derived from the URL and the body.
            ca: A PEM file of certificates to trust in addition to the system's.

        Raises:
            ConfigError: An argument is not valid.
            MissingDependencyError: httptools is not installed.
        """
        try:
            import httptools  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingDependencyError("httptools", "serve", "load on a server") from error
        self._url = HttpUrl.read(url)
        self._tls = self._url.context(ca)
        word = method or ("POST" if bodies else "GET")
        self._requests = [
            request_of(self._url, body, word, headers) for body in bodies or [HttpBody()]
        ]
        self._place = 0
        # Used by the event loop's thread only.
        self._free: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._waiting: deque[Attempt] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The URL."""
        return self._url.text

    def __enter__(self) -> Self:
        """Starts the event-loop thread."""
        from modelflow.http.server import new_loop

        self._loop = new_loop()
        self._loop_queue = LoopQueue(self._loop)
        self._thread = threading.Thread(target=self._main, name="modelflow/load/http")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Closes every connection and joins the thread."""
        self._loop_queue.post(self._end)
        self._thread.join()

    def connect(self) -> None:
        """Opens the first connection; a server that does not run is then reported only once.

        Raises:
            ConfigError: The server does not accept the connection.
        """
        first = asyncio.wait_for(self._connect_first(), _PATIENCE)
        connecting = asyncio.run_coroutine_threadsafe(first, self._loop)
        try:
            connecting.result()
        except BaseException as error:
            connecting.cancel()
            if not isinstance(error, (OSError, TimeoutError)):
                raise
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"{self.name}: cannot connect: {reason or f'no answer in {_PATIENCE:g} s'}"
            ) from error

    def submit(self, attempts: Sequence[Attempt], on_room: Callable[[], None]) -> int:  # noqa: ARG002
        """See `Target`; accepts all requests."""
        self._loop_queue.post(partial(self._begin, attempts))
        return len(attempts)

    def cancel(self, attempt: Attempt) -> None:
        """See `Target`; closes the connection of the request."""
        self._loop_queue.post(partial(self._cancel, attempt))

    # -- event-loop thread ------------------------------------------------------------------------

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def _end(self) -> None:
        for connection in [*self._open]:
            connection.close()
        for task in self._connecting:
            task.cancel()
        self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in [*self._open]:  # connected during the wait above
            connection.close()
        await asyncio.sleep(0)  # `connection_lost` is called in the next turn of the loop
        self._loop.stop()

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        now = SYSTEM_CLOCK.now()
        for attempt in attempts:
            attempt.sent = now  # the delay until here is the client's own
        self._waiting.extend(attempts)
        self._go_on()

    def _go_on(self) -> None:
        """Assigns requests to free connections, and opens as many connections as are missing."""
        while self._waiting and self._free:
            attempt = self._waiting.popleft()
            if not attempt.is_over:
                connection = self._free.pop()
                connection.ask(attempt, self._requests[self._place])
                self._place = (self._place + 1) % len(self._requests)
        for _ in range(len(self._waiting) - len(self._connecting)):
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect_first(self) -> None:
        self.add_free(await self._open_connection())

    async def _connect(self) -> None:
        """Opens a connection for a waiting request."""
        task = asyncio.current_task()
        assert task is not None  # always runs as a task
        try:
            connection = await self._open_connection()
        except OSError as error:
            self._connecting.discard(task)
            if self._waiting:
                self._waiting.popleft().on_end(type(error).__name__)
            return
        self._connecting.discard(task)  # before `add_free`, which counts the missing connections
        self.add_free(connection)

    async def _open_connection(self) -> "HttpConnection":
        from modelflow.insight.load.http_connection import HttpConnection

        host, port = self._url.host, self._url.port
        name = host if self._tls is not None else None
        _, connection = await self._loop.create_connection(
            lambda: HttpConnection(self), host, port, ssl=self._tls, server_hostname=name
        )
        self._open.add(connection)
        return connection

    def _cancel(self, attempt: Attempt) -> None:
        connection = attempt.handle
        if connection is not None and connection.attempt is attempt:
            connection.close()

    def add_free(self, connection: "HttpConnection") -> None:
        """Takes back a free connection (called by the connection)."""
        self._free.append(connection)
        self._go_on()

    def on_close(self, connection: "HttpConnection") -> None:
        """Forgets a closed connection (called by the connection)."""
        self._open.discard(connection)
        if connection in self._free:
            self._free.remove(connection)

    def again(self, attempt: Attempt) -> None:
        """Sends a request again (called by the connection that ended)."""
        self._waiting.appendleft(attempt)
        self._loop.call_soon(self._go_on)
