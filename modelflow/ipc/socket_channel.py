"""Channels between machines: arrays follow their message through the socket, without a copy.

Unpickling is safe only if the sender is trusted. Before the first message, each side therefore
proves that it knows a key. The proof is the HMAC-SHA-256 (RFC 2104) of a random number of the other
side, so the key itself is never sent.
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
"""The length of a key in bytes."""

_NONCE = 32
# The kernel detects a vanished machine after one minute, if no timeout detects it sooner.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
_MOST_VIEWS = 512  # in one system call; IOV_MAX is 1024


class StrangerError(ConnectionError):
    """The error for an other side that does not know the key."""


class SocketChannel(Channel):
    """A side of a channel. For one thread at a time."""

    _follow = True

    def __init__(
        self, connection: socket.socket, dumps: Callable[..., bytes] = pickle.dumps
    ) -> None:
        """Opens a side of a connection after both sides have proved the key; see `Channel`."""
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
    """Connects to a listener that uses `welcome`.

    Args:
        address: Host and port.
        key: The key that both sides know.
        timeout: Seconds in which the listener must answer.

    Raises:
        StrangerError: the listener does not know the key.
        OSError: no listener answers in time.
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
    """Checks that an accepted client knows the key, and proves the key to the client.

    Args:
        connection: The accepted connection.
        key: The key that both sides know.
        timeout: Seconds in which the client must complete the handshake.

    Raises:
        StrangerError: the client does not know the key.
        OSError: the client has gone or takes too long.
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
