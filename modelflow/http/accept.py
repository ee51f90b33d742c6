"""How connections arrive: accepted at an address, over TLS, or inherited from another process."""

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

# There are no descriptors, or no memory, for another connection: it stays where it is for a while.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS = 1.0

BACKLOG = 2048
"""Connections that wait to be accepted."""


class MakeProtocol(Protocol):
    """Makes what a connection is given to; see `accept`."""

    def __call__(self, before: Member | None = None, /) -> asyncio.Protocol:
        """Given what has stood for it until now, if anything has."""


async def accept(
    listening: socket.socket, connections: Connections, tls: ssl.SSLContext, enter: MakeProtocol
) -> None:
    """Takes connections until it is cancelled.

    Args:
        listening: A socket that listens.
        connections: All of the server's.
        tls: Certificate and key.
        enter: Makes what a connection is given to, behind the handshake; given what stood for it
            until then.
    """
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        try:
            client, address = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno in _FULL:
                _log.error("no connection can be taken now: %s", error)
                await asyncio.sleep(_SECONDS)
            continue  # else it was gone before it was taken
        TlsHandshake(client, str(address[0]), connections).begin(tls, enter)


class TlsHandshake:
    """A connection that is shaking hands. For the server's thread.

    Attributes:
        host: The client's address.
    """

    def __init__(self, client: socket.socket, host: str, connections: Connections) -> None:
        """Takes the socket, which becomes its own, and those it belongs to."""
        self.host = host
        self._socket = client
        self._all = connections
        self._shaking: asyncio.Task[None] | None = None
        self._has_begun = False  # then the socket is the transport's to close

    def begin(self, tls: ssl.SSLContext, enter: MakeProtocol) -> None:
        """Begins the handshake, where there is room."""
        if self._all.admit(self):
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
        except OSError as error:  # it speaks no TLS, has no certificate, is too late, or gone
            _log.debug("%s: no handshake: %s", self.host, error)
        finally:
            self._all.forget(self)

    def end(self) -> None:
        """Ends it: no request of it is under way."""
        self.close()

    def close(self) -> None:
        """Ends it at once."""
        if self._shaking is not None:
            self._shaking.cancel()  # before it has begun, it never will
        if not self._has_begun:
            self._socket.close()


REPORT = struct.Struct("!II")
"""What is said back: how many connections were taken in all, and how many are open."""

_AT_ONCE = 64
# How long who is leaving waits for those that are being handed over to it.
_LAST_SECONDS = 5.0


class InheritedConnections:
    """Takes connections from a Unix socket, each the descriptor that comes with a byte.

    Either side says by the end of what it sends that it hands over, or takes, no more.

    Attributes:
        address: Where clients reach what is behind it: host and port.
    """

    def __init__(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Takes the socket, which becomes its own, and the address that it stands for."""
        self.address = address
        self._socket = sock
        self._socket.setblocking(False)
        self._taken = 0
        # Those whose transport is being made, and what each is given to.
        self._coming: dict[asyncio.Task[None], asyncio.Protocol] = {}
        self._is_due = self._is_leaving = False
        self._over = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(
        self, connections: Connections, tls: ssl.SSLContext | None, enter: MakeProtocol
    ) -> AsyncIterator[None]:
        """Takes connections inside the block; at its end those that are on their way.

        Args:
            connections: All of the server's.
            tls: Certificate and key, for https.
            enter: Makes what a connection is given to.
        """
        self._connections, self._tls, self._enter = connections, tls, enter
        self._loop = asyncio.get_running_loop()
        connections.on_change = self._on_change
        self._loop.add_reader(self._socket, self._take)
        try:
            yield
        finally:
            self._is_leaving = True
            with contextlib.suppress(OSError):  # the other side has gone
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
            except OSError:  # the other side has ended in the midst of it
                said, descriptors = b"", []
            if not said:
                self._loop.remove_reader(self._socket)
                self._over.set()
                return
            self._taken += 1
            if descriptors:  # else there was no room for another
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
            host = str(client.getpeername()[0])
        except OSError:  # it has gone already
            client.close()
        else:
            TlsHandshake(client, host, self._connections).begin(self._tls, self._enter)

    def _came(self, coming: asyncio.Task[None]) -> None:
        del self._coming[coming]
        self._on_change()

    async def _let_in(self, client: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, client)
        except OSError as error:
            _log.debug("a connection was gone before it was let in: %s", error)
            client.close()

    def _on_change(self) -> None:
        """Says how many there are, once for all that changes in one turn of the loop."""
        if not self._is_due and not self._is_leaving:
            self._is_due = True
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        self._is_due = False
        if not self._is_leaving:
            # Where a transport is made, it is one of the connections before its task is over.
            coming = sum(one not in self._connections for one in self._coming.values())
            said = REPORT.pack(self._taken, len(self._connections) + coming)
            with contextlib.suppress(OSError):  # gone, or behind: a later report says more
                self._socket.send(said)


@contextlib.asynccontextmanager
async def arrivals(
    bound: socket.socket | InheritedConnections,
    connections: Connections,
    tls: ssl.SSLContext | None,
    enter: MakeProtocol,
) -> AsyncIterator[None]:
    """Takes connections inside the block, and closes where they come from behind it.

    Args:
        bound: A socket with an address, or where another process hands connections over.
        connections: All of the server's.
        tls: Certificate and key; None: no TLS.
        enter: Makes what a connection is given to.

    Raises:
        OSError: somebody else listens there.
    """
    if isinstance(bound, InheritedConnections):
        async with bound.open(connections, tls, enter):
            yield
        return
    loop = asyncio.get_running_loop()
    if tls is None:
        server = await loop.create_server(enter, sock=bound, backlog=BACKLOG)
        yield
        bound.shutdown(socket.SHUT_RDWR)  # a process that was forked may hold it open
        server.close()
        return
    bound.listen(BACKLOG)
    accepting = loop.create_task(accept(bound, connections, tls, enter))
    yield
    accepting.cancel()
    await asyncio.wait([accepting])
    bound.shutdown(socket.SHUT_RDWR)
    bound.close()
