"""The HTTP server on a thread of its own: event loop, connections, TLS."""

import asyncio
import contextlib
import math
import socket
import ssl
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from modelflow.errors import ConfigError, MissingDependencyError
from modelflow.http.accept import BACKLOG, InheritedConnections, arrivals
from modelflow.http.connections import Connections, Member
from modelflow.http.options import ConnectionLimits, Endpoint, TlsOptions
from modelflow.http.request import Handler
from modelflow.ipc.loop_queue import LoopQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def server_context(options: TlsOptions, protocol: str = "http/1.1") -> ssl.SSLContext:
    """Returns what a server takes connections with.

    Args:
        options: Certificate and key.
        protocol: What is spoken, as clients are told (ALPN): ``http/1.1``, ``h2``.

    Raises:
        ConfigError: a file cannot be read, or the certificate is not valid today.
    """
    context = _load(options)
    _try(context, options)
    if options.client_ca is not None:
        try:
            context.load_verify_locations(options.client_ca)
        except (OSError, ValueError) as error:  # OpenSSL's errors are an OSError
            raise ConfigError(_unread("client CA", options.client_ca, error)) from error
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([protocol])
    return context


def context_of(cert: str | Path, key: str | Path | None) -> ssl.SSLContext:
    """Returns a context with a certificate and its key.

    Args:
        cert: The file with the certificate.
        key: The file with the key; None: it is in the same file.

    Raises:
        OSError, ValueError: they cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key, password=_no_passphrase)
    return context


def _load(options: TlsOptions) -> ssl.SSLContext:
    # One after the other, as OpenSSL's errors name no file.
    for what, path, mark in (
        ("certificate", options.cert, b"CERTIFICATE-----"),
        ("key", options.key, b"PRIVATE KEY-----"),
    ):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(_unread(what, path, error)) from error
        if b"-----BEGIN " not in text or mark not in text:
            raise ConfigError(f"TLS {what} {path}: there is none in it; expected one as PEM text")
    try:
        return context_of(options.cert, options.key)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"TLS key {options.key}: it is not the key of the certificate {options.cert}; "
                "expected the one that the certificate was made with"
            ) from error
        raise ConfigError(_unread("certificate", options.cert, error, options.key)) from error


def _try(server: ssl.SSLContext, options: TlsOptions) -> None:
    """Shakes hands in memory, as a client would that trusts the certificate as such.

    What every client would refuse (it has expired, it is not valid yet) is found so.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not go back to a root
    client.load_verify_locations(options.cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        while sum(_is_done(end) for end in ends) < len(ends):
            pass  # each has answered what the other had said
    except ssl.SSLCertVerificationError as error:
        raise ConfigError(
            f"TLS certificate {options.cert}: {error.verify_message}; expected one that is valid "
            "today (openssl x509 -noout -dates -in FILE)"
        ) from error
    except ssl.SSLError as error:
        raise ConfigError(_unread("certificate", options.cert, error, options.key)) from error


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _no_passphrase() -> str:
    """What OpenSSL asks for: else it would wait at the terminal."""
    raise ValueError(
        "the key has a passphrase; expected one without (openssl pkey -in FILE -out FILE)"
    )


def _unread(what: str, path: Path, error: Exception, key: Path | None = None) -> str:
    beside = "" if key is None else f" with the key {key}"
    reason = getattr(error, "strerror", None) or str(error)
    return f"TLS {what} {path}{beside}: cannot be used: {reason}"


# How long the end of the server waits for clients that do not take their answers.
_LAST_SECONDS = 5.0


def check_parser() -> None:
    """Checks that what reads requests is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    try:
        import httptools  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError("httptools", "serve", "an HTTP server") from error


def new_loop() -> asyncio.AbstractEventLoop:
    """Returns an event loop: uvloop's where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class GuestServer(Protocol):
    """Something else that lives on a server's loop, and ends with it."""

    async def start(self) -> None:
        """Begins; on the loop's thread."""

    async def close(self, seconds: float) -> None:
        """Ends it; what is under way may take so long. Called again where that is too long."""


class Server:
    """Hands every request that comes to a socket to a handler.

    Attributes:
        loop_queue: For what is to be done on the server's thread.
    """

    def __init__(
        self,
        bound: socket.socket | InheritedConnections,
        handler: Handler,
        limits: ConnectionLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listens, and starts the thread.

        Args:
            bound: A socket with an address (see `bind_socket`), which stays the caller's to close;
                or where another process hands connections over, which ends with the server.
            handler: Called on the server's thread.
            limits: What the connections may cost.
            tls: Certificate and key, for https.

        Raises:
            OSError: somebody else listens there.
            MissingDependencyError: what reads requests is not installed.
        """
        check_parser()
        self._bound = bound if isinstance(bound, InheritedConnections) else bound.dup()
        if isinstance(bound, InheritedConnections):
            host, port = bound.address
        else:
            bound.listen(BACKLOG)
            host, port = bound.getsockname()[:2]
        self._handler = handler
        self._tls = tls
        self._loop = new_loop()
        self.loop_queue = LoopQueue(self._loop)
        self._connections = Connections(limits, self.loop_queue)
        self._guests: list[GuestServer] = []
        self.last: Callable[[], Awaitable[None]] | None = None
        """Called on the loop when all requests, and all guests, have come to their end."""
        self._is_ending = asyncio.Event()
        self._last_seconds = math.inf
        self._sooner: set[asyncio.Task[None]] = set()
        self._is_leaving = False
        self._thread = threading.Thread(
            target=self._main, name=f"modelflow/http/{host}:{port}", daemon=False
        )
        self._thread.start()

    def invite(self, guest: GuestServer) -> None:
        """Starts something else on the server's loop; the server's end is its end, too.

        From another thread; returns when it has started, and raises what that raises.
        """
        asyncio.run_coroutine_threadsafe(self._start(guest), self._loop).result()

    async def _start(self, guest: GuestServer) -> None:
        await guest.start()
        self._guests.append(guest)

    def close(self, seconds: float = _LAST_SECONDS) -> None:
        """Ends it: no new connections; requests under way are answered first, if they can be.

        May be called again, also while another thread waits in it: the shortest time counts.

        Args:
            seconds: How long it waits for that, and for clients that do not take their answers.
        """
        self.end_within(seconds)
        self._thread.join()

    def end_within(self, seconds: float) -> None:
        """Does what `close` does, without waiting for it."""
        self.loop_queue.post(partial(self._end_within, seconds))

    def _end_within(self, seconds: float) -> None:
        self._last_seconds = min(self._last_seconds, seconds)
        self._is_ending.set()
        if self._is_leaving:
            self._sooner.add(self._loop.create_task(self._end(seconds)))

    def _main(self) -> None:
        with contextlib.closing(self._loop) as loop:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        from modelflow.http.connection import Connection

        def enter(before: Member | None = None, /) -> Connection:
            return Connection(self._connections, self._handler, before)

        async with arrivals(self._bound, self._connections, self._tls, enter):
            await self._is_ending.wait()
            for _ in range(3):  # who has connected already is still let in, and told
                await asyncio.sleep(0)
            self._connections.end()  # before nobody listens: whoever sees that has been told
        self._is_leaving = True
        await self._end(self._last_seconds)
        self._is_leaving = False  # it has come: nothing can hasten it any more
        if self._sooner:
            await asyncio.wait(self._sooner)
        if self.last is not None:
            await self.last()

    async def _end(self, seconds: float) -> None:
        closing = (guest.close(seconds) for guest in self._guests)
        await asyncio.gather(self._end_connections(seconds), *closing)

    async def _end_connections(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connections.wait_until_ended(), seconds)
        self._connections.abort()


def bind_socket(endpoint: Endpoint) -> socket.socket:
    """Returns a socket with the endpoint's address, which does not listen yet.

    Raises:
        OSError: the address is in use, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Else a port could not be used again while old connections are remembered.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it head and body of an answer are 40 ms apart: the second
        # waits for the first one's acknowledgement, which the client delays
        # (benchmarks/http_load.py).
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((endpoint.host, endpoint.port))
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno, f"endpoint {endpoint}: cannot listen there: {error.strerror or error}"
        ) from error
    return bound


def tls_context(endpoint: Endpoint, cert: str, key: str) -> ssl.SSLContext | None:
    """Reads certificate and key; None for http.

    Raises:
        ValueError: they are missing, not wanted, or cannot be read.
    """
    if endpoint.is_tls != bool(cert):
        raise ValueError(
            f"endpoint {endpoint}: https needs cert and key"
            if endpoint.is_tls
            else f"endpoint {endpoint}: got a cert for http; expected https://..."
        )
    if not cert:
        return None
    try:
        return context_of(cert, key or None)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"endpoint {endpoint}: cert={cert!r}, key={key!r} cannot be read: {error}"
        ) from error
