"""Messages between a flow and one of its processes; arrays go through shared memory.

A message is pickled (protocol 5) with its arrays out of band: their bytes are copied into an
anonymous file that both sides map, the rest goes through a socket. The file has no name: the system
frees it when both processes are gone, however they end.
"""

import mmap
import os
import pickle
import select
import socket
import struct
from typing import Any, NamedTuple

import numpy as np

from modelflow.device import empty

__all__ = ["Channel", "Ends", "open_channel"]

_HEAD = struct.Struct("<QI")
_SIZE = struct.Struct("<Q")
_ALIGNMENT = 64
_FIRST_SIZE = 1 << 16
_MOST_BUFFERS = 1 << 20


class Ends(NamedTuple):
    """What a process needs to take up its side of a channel: file descriptors.

    Attributes:
        socket: The socket.
        incoming: The memory that it reads.
        outgoing: The memory that it writes.
    """

    socket: int
    incoming: int
    outgoing: int


class _Memory:
    """An anonymous file, mapped; the side that writes makes it larger where a message needs it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)

    def writable(self, size: int) -> mmap.mmap:
        if size > len(self._map):
            os.ftruncate(self._fd, 1 << (size - 1).bit_length())
        return self.readable(size)

    def readable(self, size: int) -> mmap.mmap:
        if size > len(self._map):
            self._map.close()
            self._map = mmap.mmap(self._fd, os.fstat(self._fd).st_size)
        return self._map

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)


class Channel:
    """One side of a channel. For one thread at a time."""

    def __init__(self, ends: Ends) -> None:
        """Takes up a side."""
        self._socket = socket.socket(fileno=ends.socket)
        self._incoming = _Memory(ends.incoming)
        self._outgoing = _Memory(ends.outgoing)

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends a message.

        Raises:
            TimeoutError: the other side has taken nothing of it for ``timeout`` seconds, and is of
                no use any more.
            OSError: the other side has ended.
            Exception: something in it cannot be pickled.
        """
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        total = sum(_room(view.nbytes) for view in views)
        if total:
            memory, at = self._outgoing.writable(total), 0
            for view in views:
                memory[at : at + view.nbytes] = view
                at += _room(view.nbytes)
        sizes = b"".join(_SIZE.pack(view.nbytes) for view in views)
        self._socket.settimeout(timeout)
        self._socket.sendall(_HEAD.pack(len(pickled), len(views)) + sizes + pickled)

    def receive(self, timeout: float | None = None) -> Any:
        """Waits for a message; its arrays are its own.

        Raises:
            TimeoutError: nothing has come of it within ``timeout`` seconds; where it has begun to,
                the other side is of no use any more.
            EOFError: the other side has ended.
        """
        if timeout is not None and not select.select([self._socket], [], [], timeout)[0]:
            message = f"no answer within {timeout:g} s"
            raise TimeoutError(message)
        self._socket.settimeout(timeout)
        length, count = _HEAD.unpack(self._read(_HEAD.size))
        if count > _MOST_BUFFERS:
            message = f"a message with {count} arrays; expected at most {_MOST_BUFFERS}"
            raise EOFError(message)
        packed = self._read(count * _SIZE.size)
        sizes = [size for (size,) in _SIZE.iter_unpack(packed)]
        pickled = self._read(length)
        buffers: list[Any] = []
        if sizes:
            memory, at = self._incoming.readable(sum(map(_room, sizes))), 0
            for size in sizes:
                target = empty((size,))
                target[:] = np.frombuffer(memory, np.uint8, size, at)
                buffers.append(target)
                at += _room(size)
        # From our own process, over a socket that nobody else has.
        return pickle.loads(pickled, buffers=buffers)

    def close(self) -> None:
        """Gives everything back."""
        self._socket.close()
        self._incoming.close()
        self._outgoing.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(min(size - len(parts), 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                message = "the other side has ended"
                raise EOFError(message)
            parts += part
        return bytes(parts)


def open_channel() -> tuple[Ends, Ends]:
    """Returns the two sides of a new channel; descriptors of which no other process knows."""
    ours, theirs = socket.socketpair()
    memories = []
    for name in ("modelflow-in", "modelflow-out"):
        fd = os.memfd_create(name)
        os.ftruncate(fd, _FIRST_SIZE)
        memories.append(fd)
    there, back = memories
    mine = Ends(ours.detach(), os.dup(back), os.dup(there))
    return mine, Ends(theirs.detach(), there, back)


def _room(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
