"""Channels between processes of one machine, whose arrays go through shared memory.

Their bytes are copied into an anonymous file that both sides map. The file has no name: the system
frees it when both processes are gone, however they end.
"""

import mmap
import os
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from modelflow.device import empty
from modelflow.ipc.channel import Channel

__all__ = ["Ends", "MemoryChannel", "open_channel"]

_ALIGNMENT = 64
_FIRST_SIZE = 1 << 16


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


class MemoryChannel(Channel):
    """One side of a channel. For one thread at a time."""

    def __init__(self, ends: Ends) -> None:
        """Takes up a side."""
        super().__init__(socket.socket(fileno=ends.socket))
        self._incoming = _Memory(ends.incoming)
        self._outgoing = _Memory(ends.outgoing)

    def close(self) -> None:
        """Gives everything back."""
        super().close()
        self._incoming.close()
        self._outgoing.close()

    def _write(self, head: bytes, views: Sequence[memoryview]) -> None:
        total = sum(_room(view.nbytes) for view in views)
        if total:
            memory, at = self._outgoing.writable(total), 0
            for view in views:
                memory[at : at + view.nbytes] = view
                at += _room(view.nbytes)
        self._socket.sendall(head)

    def _arrays(self, sizes: Sequence[int]) -> list[Any]:
        memory, at = self._incoming.readable(sum(map(_room, sizes))), 0
        found = []
        for size in sizes:
            target = empty((size,))
            target[:] = np.frombuffer(memory, np.uint8, size, at)
            found.append(target)
            at += _room(size)
        return found


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
