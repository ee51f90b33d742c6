"""Connections over TLS until their handshake is over: they count, and have a time, as any other."""

import asyncio
import errno
import logging
import socket
import ssl
from typing import Protocol

from modelflow.http.connections import Connections, Member

__all__ = ["BACKLOG", "Doorway", "Enter", "accept"]

_log = logging.getLogger(__name__)

# There are no descriptors, or no memory, for another connection: it stays where it is for a while.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS = 1.0

BACKLOG = 2048
"""Connections that wait to be accepted."""


class Enter(Protocol):
    """Makes what a connection is given to; see `accept`."""

    def __call__(self, before: Member | None = None, /) -> asyncio.Protocol:
        """Given what has stood for it until now, if anything has."""


async def accept(
    listening: socket.socket, connections: Connections, tls: ssl.SSLContext, enter: Enter
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
        Doorway(client, str(address[0]), connections).begin(tls, enter)


class Doorway:
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

    def begin(self, tls: ssl.SSLContext, enter: Enter) -> None:
        """Begins the handshake, where there is room."""
        if self._all.admit(self):
            self._shaking = asyncio.get_running_loop().create_task(self._shake(tls, enter))
        else:
            self._socket.close()

    async def _shake(self, tls: ssl.SSLContext, enter: Enter) -> None:
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
