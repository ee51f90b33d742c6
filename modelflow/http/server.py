"""The HTTP server on its own thread, with event loop, connections and TLS."""

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
from modelflow.files.unix_socket import address_parts, bind_unix_socket, is_unix
from modelflow.http.accept import BACKLOG, InheritedConnections, arrivals
from modelflow.http.connections import Connections, Member
from modelflow.http.options import ConnectionLimits, Endpoint, TlsOptions
from modelflow.http.request import Handler
from modelflow.ipc.loop_queue import LoopQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def server_context(options: TlsOptions, protocol: str = "http/1.1") -> ssl.SSLContext:
    """Returns the TLS context of a server.

    Args:
        options: Certificate and key.
        protocol: The protocol to announce to clients (ALPN): ``http/1.1`` or ``h2``.

    Raises:
        ConfigError: A file cannot be read, or the certificate is not valid today.
    """
    context = _load(options)
    _try(context, options)
    if options.client_ca is not None:
        try:
            context.load_verify_locations(options.client_ca)
        except (OSError, ValueError) as error:  # OpenSSL's errors are OSErrors
            raise ConfigError(_unread("client CA", options.client_ca, error)) from error
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([protocol])
    return context


def context_of(cert: str | Path, key: str | Path | None) -> ssl.SSLContext:
    """Returns a TLS context with a certificate and its key.

    Args:
        cert: The file with the certificate.
        key: The file with the key, or None if the certificate's file contains the key.

    Raises:
        OSError, ValueError: The files cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key, password=_no_passphrase)
    return context


def _load(options: TlsOptions) -> ssl.SSLContext:
    # Each file is checked on its own, because OpenSSL's errors name no file.
    for what, path, mark in (
        ("certificate", options.cert, b"CERTIFICATE-----"),
        ("key", options.key, b"PRIVATE KEY-----"),
    ):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(_unread(what, path, error)) from error
        if b"-----BEGIN " not in text or mark not in text:
            raise ConfigError(f"TLS {what} {path}: not found in the file; expected PEM text")
    try:
        return context_of(options.cert, options.key)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"TLS key {options.key}: it is not the key of the certificate {options.cert}; "
                "expected the key that belongs to the certificate"
            ) from error
        raise ConfigError(_unread("certificate", options.cert, error, options.key)) from error


def _try(server: ssl.SSLContext, options: TlsOptions) -> None:
    """Tests a TLS handshake in memory, with a client that trusts the certificate itself.

    The test finds certificates that every client would refuse: expired or not valid yet.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # trusts the certificate without its root
    client.load_verify_locations(options.cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        while sum(_is_done(end) for end in ends) < len(ends):
            pass  # each call answers the other end's last message
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
    """Raises an error, because OpenSSL would otherwise ask for a passphrase at the terminal."""
    raise ValueError(
        "the key has a passphrase; expected one without (openssl pkey -in FILE -out FILE)"
    )


def _unread(what: str, path: Path, error: Exception, key: Path | None = None) -> str:
    beside = "" if key is None else f" with the key {key}"
    reason = getattr(error, "strerror", None) or str(error)
    return f"TLS {what} {path}{beside}: cannot be used: {reason}"


LAST_SECONDS = 5.0
"""Seconds that the end of the server waits for running requests and for slow clients."""


def check_parser() -> None:
    """Checks that the request parser (httptools) is installed.

    Raises:
        MissingDependencyError: The parser is not installed.
    """
    try:
        import httptools  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError("httptools", "serve", "an HTTP server") from error


def new_loop() -> asyncio.AbstractEventLoop:
    """Returns an event loop, from uvloop if installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class GuestServer(Protocol):
    """Another server on the event loop of an HTTP server, which ends with the HTTP server."""

    async def start(self) -> None:
        """Starts the server, on the loop's thread."""

    async def close(self, seconds: float) -> None:
        """Ends the server within ``seconds``. May be called again with fewer seconds."""


class Server:
    """An HTTP server that passes every request at a socket to a handler.

    Attributes:
        loop_queue: The queue of calls to the server's thread.
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
            bound: A socket with an address (see `bind_socket`), which the caller closes. Or the
                connections from another process, which the server closes.
            handler: The handler of requests, called on the server's thread.
            limits: The limits on connections.
            tls: Certificate and key, for https.

        Raises:
            OSError: The address is in use.
            MissingDependencyError: The request parser is not installed.
        """
        check_parser()
        self._bound = bound if isinstance(bound, InheritedConnections) else bound.dup()
        if isinstance(bound, InheritedConnections):
            host, port = bound.address
        else:
            bound.listen(BACKLOG)
            host, port = address_parts(bound)
        self._handler = handler
        self._tls = tls
        self._loop = new_loop()
        self.loop_queue = LoopQueue(self._loop)
        self._connections = Connections(limits, self.loop_queue)
        self._guests: list[GuestServer] = []
        self.last: Callable[[], Awaitable[None]] | None = None
        """Called on the loop when all requests and all guests have ended."""
        self._is_ending = asyncio.Event()
        self._last_seconds = math.inf
        self._sooner: set[asyncio.Task[None]] = set()
        self._is_leaving = False
        self._thread = threading.Thread(
            target=self._main, name=f"modelflow/http/{host}:{port}", daemon=False
        )
        self._thread.start()

    def invite(self, guest: GuestServer) -> None:
        """Starts a guest on the server's loop. The guest ends with the server.

        Call this method from another thread. The method returns when the guest has started, and
        raises the errors of its start.
        """
        asyncio.run_coroutine_threadsafe(self._start(guest), self._loop).result()

    async def _start(self, guest: GuestServer) -> None:
        await guest.start()
        self._guests.append(guest)

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Ends the server after the running requests are answered. Accepts no new connections.

        You may call this method again, also while another thread waits in it. The shortest time
        counts.

        Args:
            seconds: Seconds to wait for running requests and for slow clients.
        """
        self.end_within(seconds)
        self._thread.join()

    def end_within(self, seconds: float) -> None:
        """Starts the end of the server as `close` does, without waiting for the end."""
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
            for _ in range(3):  # accepts the connections that wait, to notify them below
                await asyncio.sleep(0)
            self._connections.end()  # before the port closes: then all are notified
        self._is_leaving = True
        await self._end(self._last_seconds)
        self._is_leaving = False  # a later `_end_within` has nothing left to shorten
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
    """Returns a socket that is bound to the endpoint's address and does not listen yet.

    A Unix socket (the host is ``unix:PATH``) listens already; see `bind_unix_socket`.

    Raises:
        OSError: The address is in use, or does not belong to this machine.
    """
    if is_unix(endpoint.host):
        return bind_unix_socket(endpoint.host)
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Without this option, the system blocks the port while old connections are in TIME_WAIT.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit this option. Without it, the body of a reply arrives 40 ms after the
        # head. The body waits for the acknowledgement of the head, which the client delays
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
    """Returns the TLS context of an endpoint, or None for http.

    Raises:
        ValueError: Certificate or key are missing, superfluous, or cannot be read.
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
