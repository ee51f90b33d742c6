"""A server, as what load is put on: connections on a thread with an event loop."""

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


# Seconds for the first connection, which tells whether anybody is there.
_PATIENCE = 10.0


class HttpTarget:
    """Sends requests to a server over HTTP/1.1, those of a list in turns.

    Each request that is under way has a connection for itself; connections are kept and used again.
    An answer of 2xx is one; any other fails as ``HTTP 503``, and a connection that ends before its
    answer as the exception's name, or ``no answer``. A request that meets a connection which the
    server has ended meanwhile, before anything came, is sent again over another.

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
        """Makes the requests; connects nowhere yet.

        Args:
            url: Of http or https.
            bodies: What the requests carry, in turns; none: they carry nothing.
            method: None: POST where there are bodies, else GET.
            headers: Names and values, beside those that are made of the URL and the body.
            ca: Certificates (PEM) that are trusted beside the system's.

        Raises:
            ConfigError: one of them is none.
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
        # Of the loop's thread.
        self._free: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._waiting: deque[Attempt] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """Its URL."""
        return self._url.text

    def __enter__(self) -> Self:
        """Starts the thread."""
        from modelflow.http.server import new_loop

        self._loop = new_loop()
        self._loop_queue = LoopQueue(self._loop)
        self._thread = threading.Thread(target=self._main, name="modelflow/load/http")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every connection and joins the thread."""
        self._loop_queue.post(self._end)
        self._thread.join()

    def connect(self) -> None:
        """Connects for the first time: else each request would say that nobody answers.

        Raises:
            ConfigError: nobody answers there.
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
        """See `Target`; takes all."""
        self._loop_queue.post(partial(self._begin, attempts))
        return len(attempts)

    def cancel(self, attempt: Attempt) -> None:
        """See `Target`: ends the connection that it is on."""
        self._loop_queue.post(partial(self._cancel, attempt))

    # -- the loop's thread ------------------------------------------------------------------------

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
        for connection in [*self._open]:  # one that was connected in the last moment
            connection.close()
        await asyncio.sleep(0)  # ends of connections are told in the next turn
        self._loop.stop()

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        now = SYSTEM_CLOCK.now()
        for attempt in attempts:
            attempt.sent = now  # not before it is here: this thread is the client's, too
        self._waiting.extend(attempts)
        self._go_on()

    def _go_on(self) -> None:
        """Gives connections requests, and makes as many as lack."""
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
        """Makes a connection for who waits."""
        task = asyncio.current_task()
        assert task is not None  # it runs as one
        try:
            connection = await self._open_connection()
        except OSError as error:
            self._connecting.discard(task)
            if self._waiting:
                self._waiting.popleft().on_end(type(error).__name__)
            return
        self._connecting.discard(task)  # before it is looked at how many lack
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
        """Takes back a connection (called by it)."""
        self._free.append(connection)
        self._go_on()

    def on_close(self, connection: "HttpConnection") -> None:
        """Forgets a connection (called by it)."""
        self._open.discard(connection)
        if connection in self._free:
            self._free.remove(connection)

    def again(self, attempt: Attempt) -> None:
        """Sends a request once more (called by the connection that had ended)."""
        self._waiting.appendleft(attempt)
        self._loop.call_soon(self._go_on)
