"""Accepts connections and hands each to the replica with the fewest; 503 while there is none.

Left to the kernel (one listening socket for all, or one each with ``SO_REUSEPORT``) eight
connections that come together meet one of two processes in most cases, and keep-alive leaves them
there (benchmarks/connection_spread.py).
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

# What is still read of a client that was answered, so that the answer arrives: seconds.
_LAST_SECONDS = 2.0
_LONGEST_HEAD = 64 << 10
_MOST = 1000
_LIVE = ("/livez", "/v2/health/live")
_ERROR = b'{"error":"no process serves now, another takes its place; come again"}'


class UnavailableResponder:
    """Answers clients in the place of processes that serve. For the loop's thread."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Takes what connections are taken with; None: no TLS."""
        self._tls = tls
        self._answering: set[asyncio.Task[None]] = set()

    def take(self, client: socket.socket) -> None:
        """Answers a client; its socket becomes its own. Beyond so many it is closed."""
        if len(self._answering) >= _MOST:
            client.close()
            return
        answering = asyncio.get_running_loop().create_task(_answer(client, self._tls))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    def close(self) -> None:
        """Ends what is left."""
        for answering in self._answering:
            answering.cancel()


async def _answer(client: socket.socket, tls: ssl.SSLContext | None) -> None:
    """Answers the first request of one connection, and drops what comes behind it."""
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
                    """What is not read would end the connection before the answer arrives."""
            else:
                transport.close()
                await reader.read()
    except OSError:  # the time is over (`TimeoutError`), the client has gone, or speaks no TLS
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


# What the kernel does with a packet for the socket (classic BPF: code, two jumps, a value): the
# first of a connection, whose TCP header has SYN, is dropped, every other one taken.
_SYN_DROPPED = b"".join(
    struct.pack("=HBBI", *step)
    for step in ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
)
_SO_ATTACH_FILTER = 26


def _let_nobody_begin(listening: socket.socket) -> None:
    """Has the system overlook who connects from now on: until the socket is closed he tries again.

    So what waits at a socket can be taken to the last before it is closed.
    """
    steps = ctypes.create_string_buffer(_SYN_DROPPED)
    program = struct.pack("HP", len(_SYN_DROPPED) // 8, ctypes.addressof(steps))
    with contextlib.suppress(OSError):  # a system that has none: the time in between is short
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


logger = logging.getLogger(__name__)

_AT_ONCE = 64
# There are no descriptors, or no memory, for another connection: it stays where it is for a while.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS = 1.0
# What was handed over has not been taken: as much as a socket holds, or a user may have on the way.
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})


class ConnectionHandover:
    """The way into one replica: the other end of its `InheritedConnections`."""

    def __init__(
        self, sock: socket.socket, on_end: "Callable[[ConnectionHandover], object]"
    ) -> None:
        """Takes the socket, which becomes its own.

        Args:
            sock: What connections go through.
            on_end: Called once when the replica takes no more.
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
        """How many connections it has: those on their way, and those that it says are open."""
        return self.handed - self._taken + self._open

    def hand(self, client: socket.socket) -> bool:
        """Hands a connection over; False: there is no room, or nobody any more."""
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
        """Says that no more come. May be called again."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._socket.close()  # what is in it still arrives
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
    """Accepts connections, and answers itself that nobody is there where that is so."""

    def __init__(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Takes a socket with an address, which becomes its own; `listen` begins.

        Args:
            listening: See `modelflow.http.server.bind_socket`.
            tls: What it takes those connections with that it answers itself; None: no TLS.
        """
        self._nobody = UnavailableResponder(tls)
        listening.setblocking(False)
        self._socket = listening
        self._handovers: list[ConnectionHandover] = []
        self._is_listening = self._is_watching = False
        self._held: socket.socket | None = None  # accepted, and to be handed over
        self._resting: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Begins.

        Raises:
            OSError: somebody else listens there.
        """
        self._socket.listen(BACKLOG)
        self._is_listening = True
        self._watch()

    def add(self, handover: ConnectionHandover) -> None:
        """Lets connections in there, too."""
        self._handovers.append(handover)
        self._watch()

    def forget(self, handover: ConnectionHandover) -> None:
        """Hands nothing more over there. May be called again."""
        if handover in self._handovers:
            self._handovers.remove(handover)
        self._watch()

    def close(self) -> None:
        """Hands over what has connected, gives the address up, and tells every replica so."""
        was_listening, self._is_listening = self._is_listening, False
        self._watch()
        if was_listening:
            _let_nobody_begin(self._socket)
            while self._handovers and self._accept():
                pass
        self._nobody.close()
        self._socket.close()  # who has connected and was not taken would be reset by the system
        if self._held is not None:
            self._held.close()
        for handover in tuple(self._handovers):
            handover.close()

    def _watch(self) -> None:
        """Looks for connections exactly while they can be taken."""
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
        """Takes one connection to its place; False: none waits, or nobody can take it."""
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
                return True  # it was gone before it was taken
        for handover in sorted(self._handovers, key=lambda one: (one.load, one.handed)):
            if handover.hand(self._held):
                self._held.close()
                self._held = None
                return True
        if self._handovers:
            self._rest()
            return False
        held, self._held = self._held, None  # nobody is there, or any more
        self._nobody.take(held)
        return True

    def _rest(self) -> None:
        """Looks again in a second: nobody can take another now."""
        if self._is_listening and self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(_SECONDS, self._go_on)
            self._watch()

    def _go_on(self) -> None:
        self._resting = None
        with contextlib.suppress(OSError):
            self._come()
        self._watch()
