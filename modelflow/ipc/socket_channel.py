"""Channels between machines: arrays follow their message through the socket, and are not copied.

Whoever unpickles must know who has pickled. So each side proves, before the first message, that it
knows a key, which nobody reads on the way: with HMAC-SHA-256 (RFC 2104) of a number that the other
side has just drawn.
"""

import hmac
import pickle
import secrets
import socket
from collections.abc import Callable, Sequence
from time import monotonic

import numpy as np

from modelflow.ipc.channel import Channel

KEY_SIZE = 32
"""How many bytes a key has."""

_NONCE = 32
# A machine that is gone without a word is seen after a minute, where nobody waits for it sooner.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
_MOST_VIEWS = 512  # of one system call; IOV_MAX is 1024


class StrangerError(ConnectionError):
    """Whoever is at the other side does not know the key."""


class SocketChannel(Channel):
    """One side of a channel. For one thread at a time."""

    _follow = True

    def __init__(
        self, connection: socket.socket, dumps: Callable[..., bytes] = pickle.dumps
    ) -> None:
        """Takes up a side of a connection whose sides know each other; see `Channel`."""
        super().__init__(connection, dumps)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def _write(self, head: bytes, views: Sequence[memoryview]) -> None:
        left = [memoryview(head), *(view for view in views if view.nbytes)]
        at = 0
        while at < len(left):
            sent = self._socket.sendmsg(left[at : at + _MOST_VIEWS])
            while sent:
                size = left[at].nbytes
                if sent < size:
                    left[at] = left[at][sent:]
                    break
                sent -= size
                at += 1

    def _fill_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        for array in arrays:
            self._fill(array.data)


def call(address: tuple[str, int], key: bytes, timeout: float) -> socket.socket:
    """Connects to whoever listens with `welcome`.

    Args:
        address: Host and port.
        key: What both know.
        timeout: Seconds in which it must have answered.

    Raises:
        StrangerError: whoever answers does not know the key.
        OSError: nobody answers in time.
    """
    due = monotonic() + timeout
    connection = socket.create_connection(address, timeout)
    try:
        nonce = secrets.token_bytes(_NONCE)
        connection.sendall(nonce)
        answer = _read(connection, _NONCE + KEY_SIZE, due)
        _see(answer[_NONCE:], _proof(key, b"listener", nonce))
        connection.sendall(_proof(key, b"caller", answer[:_NONCE]))
    except BaseException:
        connection.close()
        raise
    return connection


def welcome(connection: socket.socket, key: bytes, timeout: float) -> None:
    """Sees that whoever has connected knows a key, and shows that this side does.

    Args:
        connection: As it was accepted.
        key: What both know.
        timeout: Seconds in which it must have said all it is to say.

    Raises:
        StrangerError: whoever has connected does not know it.
        OSError: it has gone, or takes too long.
    """
    due = monotonic() + timeout
    theirs, ours = _read(connection, _NONCE, due), secrets.token_bytes(_NONCE)
    connection.sendall(ours + _proof(key, b"listener", theirs))
    _see(_read(connection, KEY_SIZE, due), _proof(key, b"caller", ours))


def _proof(key: bytes, who: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, who + nonce, "sha256")


def _see(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise StrangerError("the other side does not know the key")


def _read(connection: socket.socket, size: int, due: float) -> bytes:
    found = b""
    while len(found) < size:
        left = due - monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        connection.settimeout(left)
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the other side has gone")
        found += part
    return found
