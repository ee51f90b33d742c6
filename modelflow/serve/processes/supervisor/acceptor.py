"""The acceptor, which hands each connection to the replica with the fewest connections.

It answers 503 while no replica lives. The kernel distributes connections badly, both with a
shared listening socket and with ``SO_REUSEPORT``. Eight connections that arrive together usually
all go to the same of two processes. Keep-alive leaves them there (benchmarks/connection_spread.py).
"""

import asyncio
import contextlib
import ctypes
import errno
import logging
import socket
import ssl
import struct
from typing import TYPE_CHECKING

from modelflow.http.accept import BACKLOG, REPORT

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds for which data of an answered client is still read, to let the answer arrive.
_LAST_SECONDS = 2.0
_LONGEST_HEAD = 64 << 10
_MOST = 1000
_LIVE = ("/livez", "/v2/health/live")
_ERROR = b'{"error":"no process serves now, another takes its place; try again"}'


class UnavailableResponder:
    """A responder that answers clients while no process serves. For the loop's thread."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Stores the TLS context for connections, or None for no TLS."""
        self._tls = tls
        self._answering: set[asyncio.Task[None]] = set()

    def take(self, client: socket.socket) -> None:
        """Answers a client, and takes ownership of its socket.

        Closes the socket if too many clients wait.
        """
        if len(self._answering) >= _MOST:
            client.close()
            return
        answering = asyncio.get_running_loop().create_task(_answer(client, self._tls))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    def close(self) -> None:
        """Cancels the remaining answers."""
        for answering in self._answering:
            answering.cancel()


async def _answer(client: socket.socket, tls: ssl.SSLContext | None) -> None:
    """Answers the first request of a connection, and drops the rest."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    transport: asyncio.WriteTransport | None = None
    try:
        async with asyncio.timeout(_LAST_SECONDS):
            transport, _ = await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader), client, ssl=tls
            )
            head = b""
            while b"\r\n\r\n" not in head and len(head) <= _LONGEST_HEAD:
                if not (part := await reader.read(_LONGEST_HEAD)):
                    return
                head += part
            transport.write(_reply_to(head))
            if transport.can_write_eof():
                transport.write_eof()
                while await reader.read(_LONGEST_HEAD):
                    """Unread data would reset the connection before the answer arrives."""
            else:
                transport.close()
                await reader.read()
    except OSError:  # the time is over (`TimeoutError`), or the client has gone or uses no TLS
        return
    finally:
        client.close() if transport is None else transport.abort()


def _reply_to(head: bytes) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method in ("GET", "HEAD") and path in _LIVE:
        status, body, more = "200 OK", b"", ""
    else:
        status, body, more = "503 Service Unavailable", _ERROR, "Retry-After: 1\r\n"
    found = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    ).encode()
    return found if method == "HEAD" else found + body


# A packet filter for the socket. Each instruction of classic BPF has a code, two jumps and a value.
# The filter drops the first packet of a connection (SYN in the TCP header), and passes all others.
_SYN_DROPPED = b"".join(
    struct.pack("=HBBI", *step)
    for step in ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
)
_SO_ATTACH_FILTER = 26


def _let_nobody_begin(listening: socket.socket) -> None:
    """Makes the kernel drop new connection attempts. Clients retry until the socket is closed.

    All waiting connections can then be accepted before the socket is closed.
    """
    steps = ctypes.create_string_buffer(_SYN_DROPPED)
    program = struct.pack("HP", len(_SYN_DROPPED) // 8, ctypes.addressof(steps))
    # An error means a system without packet filters. Only the moment before the close is then at
    # risk.
    with contextlib.suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


logger = logging.getLogger(__name__)

_AT_ONCE = 64
# No descriptors or memory for another connection. It stays in the backlog for a while.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS = 1.0
# The replica has not taken earlier connections. The socket, or the user's limit of descriptors in
# transit, is full.
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})


class ConnectionHandover:
    """The handover of connections to a replica. The other end of its `InheritedConnections`."""

    def __init__(
        self, sock: socket.socket, on_end: "Callable[[ConnectionHandover], object]"
    ) -> None:
        """Takes ownership of the socket.

        Args:
            sock: The socket that carries the connections.
            on_end: Called once when the replica takes no more connections.
        """
        sock.setblocking(False)
        self._socket = sock
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._heard = b""
        self._open = self._taken = self.handed = 0
        self._loop.add_reader(sock, self._hear)
        self._is_open = True

    @property
    def load(self) -> int:
        """The number of connections of the replica: in transit, plus reported as open."""
        return self.handed - self._taken + self._open

    def hand(self, client: socket.socket) -> bool:
        """Hands over a connection.

        Returns False if the socket is full, or the replica has ended.
        """
        try:
            socket.send_fds(self._socket, [b"c"], [client.fileno()])
        except ConnectionError:
            self.close()
            return False
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return False
        self.handed += 1
        return True

    def close(self) -> None:
        """Closes the handover, because no more connections follow. May be called again."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._socket.close()  # connections in the socket still arrive
            self._on_end(self)

    def _hear(self) -> None:
        try:
            said = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self.close()
            return
        self._heard += said
        whole = len(self._heard) // REPORT.size * REPORT.size
        if whole:
            self._taken, self._open = REPORT.unpack_from(self._heard, whole - REPORT.size)
            self._heard = self._heard[whole:]


class Acceptor:
    """An acceptor of connections, which answers clients itself while no replica lives."""

    def __init__(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Takes ownership of a socket with an address. `listen` starts to accept.

        Args:
            listening: See `modelflow.http.server.bind_socket`.
            tls: The TLS context for connections that it answers itself. None for no TLS.
        """
        self._nobody = UnavailableResponder(tls)
        listening.setblocking(False)
        self._socket = listening
        self._handovers: list[ConnectionHandover] = []
        self._is_listening = self._is_watching = False
        self._held: socket.socket | None = None  # accepted, not handed over yet
        self._resting: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Starts to accept connections.

        Raises:
            OSError: another process listens at the address.
        """
        self._socket.listen(BACKLOG)
        self._is_listening = True
        self._watch()

    def add(self, handover: ConnectionHandover) -> None:
        """Adds a replica for connections."""
        self._handovers.append(handover)
        self._watch()

    def forget(self, handover: ConnectionHandover) -> None:
        """Removes a replica. May be called again."""
        if handover in self._handovers:
            self._handovers.remove(handover)
        self._watch()

    def close(self) -> None:
        """Hands over all waiting connections, frees the address, and closes every handover."""
        was_listening, self._is_listening = self._is_listening, False
        self._watch()
        if was_listening:
            if self._socket.family != socket.AF_UNIX:  # its clients have no packets
                _let_nobody_begin(self._socket)
            while self._handovers and self._accept():
                pass
        self._nobody.close()
        self._socket.close()  # the kernel resets connections that are not accepted yet
        if self._held is not None:
            self._held.close()
        for handover in tuple(self._handovers):
            handover.close()

    def _watch(self) -> None:
        """Watches the socket exactly while connections can be accepted."""
        loop = asyncio.get_running_loop()
        wanted = self._is_listening and self._resting is None
        if wanted and not self._is_watching:
            loop.add_reader(self._socket, self._come)
        elif self._is_watching and not wanted:
            loop.remove_reader(self._socket)
        self._is_watching = wanted
        if not self._is_listening and self._resting is not None:
            self._resting.cancel()

    def _come(self) -> None:
        for _ in range(_AT_ONCE):
            if not self._accept():
                return

    def _accept(self) -> bool:
        """Accepts and hands over a connection.

        Returns False if none waits, or no replica has room.
        """
        if self._held is None:
            try:
                self._held, _ = self._socket.accept()
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno in _FULL:
                    logger.error("no connection can be taken now: %s", error)
                    self._rest()
                    return False
                return True  # the client has gone before the accept
        for handover in sorted(self._handovers, key=lambda one: (one.load, one.handed)):
            if handover.hand(self._held):
                self._held.close()
                self._held = None
                return True
        if self._handovers:
            self._rest()
            return False
        held, self._held = self._held, None  # no replica is left
        self._nobody.take(held)
        return True

    def _rest(self) -> None:
        """Pauses for a second, because no further connection can be taken now."""
        if self._is_listening and self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(_SECONDS, self._go_on)
            self._watch()

    def _go_on(self) -> None:
        self._resting = None
        with contextlib.suppress(OSError):
            self._come()
        self._watch()
