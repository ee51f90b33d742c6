"""Accepts connections at an address, with or without TLS, or inherits them from a process."""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Protocol

from modelflow.http.connections import Connections, Member

_log = logging.getLogger(__name__)

# Errors for missing descriptors or memory. The connection then stays in the backlog for `_SECONDS`.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS = 1.0

BACKLOG = 2048
"""The most connections that wait to be accepted."""


class MakeProtocol(Protocol):
    """A factory of connection protocols; see `accept`."""

    def __call__(self, before: Member | None = None, /) -> asyncio.Protocol:
        """Returns a protocol. ``before`` is the TLS handshake that it replaces, or None."""


async def accept(
    listening: socket.socket, connections: Connections, tls: ssl.SSLContext, enter: MakeProtocol
) -> None:
    """Accepts TLS connections until the task is cancelled.

    Args:
        listening: A socket that listens.
        connections: All connections of the server.
        tls: Certificate and key.
        enter: Creates the protocol of a connection after the handshake.
    """
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        try:
            client, address = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno in _FULL:
                _log.error("no connection can be accepted now: %s", error)
                await asyncio.sleep(_SECONDS)
            continue  # with other errors the client has gone before `accept`
        host = str(address[0]) if isinstance(address, tuple) else ""  # "": a Unix socket
        TlsHandshake(client, host, connections).begin(tls, enter)


class TlsHandshake:
    """A connection during its TLS handshake. Call the methods on the server's thread.

    Attributes:
        host: The client's address.
    """

    def __init__(self, client: socket.socket, host: str, connections: Connections) -> None:
        """Stores and owns the socket. ``connections`` are all connections of the server."""
        self.host = host
        self._socket = client
        self._all = connections
        self._shaking: asyncio.Task[None] | None = None
        self._has_begun = False  # then the transport closes the socket

    def begin(self, tls: ssl.SSLContext, enter: MakeProtocol) -> None:
        """Begins the handshake, or closes the socket if the server has too many connections."""
        if self._all.admit(self) or self._all.admit_spare(self):
            self._shaking = asyncio.get_running_loop().create_task(self._shake(tls, enter))
        else:
            self._socket.close()

    async def _shake(self, tls: ssl.SSLContext, enter: MakeProtocol) -> None:
        self._has_begun = True
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: enter(self),
                self._socket,
                ssl=tls,
                ssl_handshake_timeout=self._all.limits.header_time_out,
                ssl_shutdown_timeout=_SECONDS,
            )
        except OSError as error:  # no TLS, no certificate, too late, or gone
            _log.debug("%s: no handshake: %s", self.host, error)
        finally:
            self._all.forget(self)

    def end(self) -> None:
        """Closes the connection, which has no requests yet."""
        self.close()

    def close(self) -> None:
        """Closes the connection at once."""
        if self._shaking is not None:
            self._shaking.cancel()  # a task that has not started never starts
        if not self._has_begun:
            self._socket.close()


REPORT = struct.Struct("!II")
"""The report to the other process: the number of received connections and of open connections."""

_AT_ONCE = 64
# Seconds that a stopping process waits for connections that are being handed over.
_LAST_SECONDS = 5.0


class InheritedConnections:
    """A receiver of connections from a Unix socket, one descriptor with each byte.

    Either side shuts down its sending direction to end the handover.

    Attributes:
        address: The host and port that clients connect to; ``unix:PATH`` and 0 for a Unix socket.
    """

    def __init__(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Stores and owns the socket, and stores the address of the clients' connections."""
        self.address = address
        self._socket = sock
        self._socket.setblocking(False)
        self._taken = 0
        # The tasks that create transports, with the protocols.
        self._coming: dict[asyncio.Task[None], asyncio.Protocol] = {}
        self._is_due = self._is_leaving = False
        self._over = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(
        self, connections: Connections, tls: ssl.SSLContext | None, enter: MakeProtocol
    ) -> AsyncIterator[None]:
        """Receives connections while the block runs, and at its end the connections on their way.

        Args:
            connections: All connections of the server.
            tls: Certificate and key, for https.
            enter: Creates the protocol of a connection.
        """
        self._connections, self._tls, self._enter = connections, tls, enter
        self._loop = asyncio.get_running_loop()
        connections.on_change = self._on_change
        self._loop.add_reader(self._socket, self._take)
        try:
            yield
        finally:
            self._is_leaving = True
            with contextlib.suppress(OSError):  # the other process has gone
                self._socket.shutdown(socket.SHUT_WR)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _LAST_SECONDS)
            self._loop.remove_reader(self._socket)
            self._socket.close()
            if self._coming:
                await asyncio.wait(self._coming)

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                said, descriptors, *_ = socket.recv_fds(self._socket, 1, 1)
            except BlockingIOError:
                return
            except OSError:  # the other process ended during a handover
                said, descriptors = b"", []
            if not said:
                self._loop.remove_reader(self._socket)
                self._over.set()
                return
            self._taken += 1
            if descriptors:  # empty if this process has no free descriptor
                self._welcome(socket.socket(fileno=descriptors[0]))
            else:
                _log.error("a connection was lost: no descriptor is free for it")
            self._on_change()

    def _welcome(self, client: socket.socket) -> None:
        client.setblocking(False)
        if self._tls is None:
            protocol = self._enter(None)
            coming = self._loop.create_task(self._let_in(client, protocol))
            self._coming[coming] = protocol
            coming.add_done_callback(self._came)
            return
        try:
            peer = client.getpeername()
        except OSError:  # the client has gone
            client.close()
        else:
            host = str(peer[0]) if isinstance(peer, tuple) else ""
            TlsHandshake(client, host, self._connections).begin(self._tls, self._enter)

    def _came(self, coming: asyncio.Task[None]) -> None:
        del self._coming[coming]
        self._on_change()

    async def _let_in(self, client: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, client)
        except OSError as error:
            _log.debug("a client has gone before its connection was set up: %s", error)
            client.close()

    def _on_change(self) -> None:
        """Schedules a single report to the other process for all changes in a loop turn."""
        if not self._is_due and not self._is_leaving:
            self._is_due = True
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        self._is_due = False
        if not self._is_leaving:
            # A protocol may be in `connections` before its task has ended. Count each once.
            coming = sum(one not in self._connections for one in self._coming.values())
            said = REPORT.pack(self._taken, len(self._connections) + coming)
            # the other process has gone, or is slow and gets a later report
            with contextlib.suppress(OSError):
                self._socket.send(said)


@contextlib.asynccontextmanager
async def arrivals(
    bound: socket.socket | InheritedConnections,
    connections: Connections,
    tls: ssl.SSLContext | None,
    enter: MakeProtocol,
) -> AsyncIterator[None]:
    """Accepts connections while the block runs, and closes the socket at its end.

    Args:
        bound: A socket with an address, or the connections from another process.
        connections: All connections of the server.
        tls: Certificate and key, or None for no TLS.
        enter: Creates the protocol of a connection.

    Raises:
        OSError: The address is in use.
    """
    if isinstance(bound, InheritedConnections):
        async with bound.open(connections, tls, enter):
            yield
        return
    loop = asyncio.get_running_loop()
    is_unix = bound.family == socket.AF_UNIX
    if tls is None:
        create = loop.create_unix_server if is_unix else loop.create_server
        server = await create(enter, sock=bound, backlog=BACKLOG)
        yield
        _shut(bound)
        server.close()
        return
    bound.listen(BACKLOG)
    accepting = loop.create_task(accept(bound, connections, tls, enter))
    yield
    accepting.cancel()
    await asyncio.wait([accepting])
    _shut(bound)
    bound.close()


def _shut(bound: socket.socket) -> None:
    """Ends listening also for a forked process, which may still have the socket.

    The processes of a server share a Unix socket, and one of them must not end the others.
    """
    if bound.family != socket.AF_UNIX:
        bound.shutdown(socket.SHUT_RDWR)
