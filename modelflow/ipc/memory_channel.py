"""Channels between processes of one machine, with arrays in shared memory.

The bytes of arrays are copied into an anonymous file that both sides map. Because the file has no
name, the system frees it when both processes have ended, for any reason.
"""

import mmap
import os
import socket
from collections.abc import Callable, Sequence

import numpy as np

from modelflow.ipc.channel import Channel, MessageError
from modelflow.ipc.shared_memory import ChannelDescriptors, open_sides

_ALIGNMENT = 64
_FIRST_SIZE = 1 << 16
# Bytes that always stay allocated for later messages.
_KEPT = 64 << 20


class _Memory:
    """A mapped anonymous file. The writing side enlarges it for large messages."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        self._filled = 0

    def writable(self, size: int) -> mmap.mmap:
        """Returns the memory for a message of ``size`` bytes. The last message has been read.

        Raises:
            MessageError: the system has no memory.
        """
        if self._filled > max(_KEPT, 4 * size):  # memory of an unusually large message is freed
            self._map.madvise(mmap.MADV_REMOVE)
            self._filled = 0
        self._filled = max(self._filled, size)
        return self._map_memory(size, lambda: os.ftruncate(self._fd, 1 << (size - 1).bit_length()))

    def readable(self, size: int) -> mmap.mmap:
        """Returns the memory with the ``size`` bytes that the other side has written.

        Raises:
            MessageError: the memory cannot be mapped.
        """
        return self._map_memory(size, lambda: None)

    def _map_memory(self, size: int, prepare: Callable[[], None]) -> mmap.mmap:
        if size > len(self._map):
            try:
                prepare()
                found = mmap.mmap(self._fd, os.fstat(self._fd).st_size)
            except OSError as error:
                raise MessageError(
                    f"there is no memory for its {size} bytes: {error.strerror}"
                ) from None
            self._map.close()
            self._map = found
        return self._map

    def close(self) -> None:
        if not self._map.closed:  # closed only once, because the descriptor may be reused by now
            self._map.close()
            os.close(self._fd)


class MemoryChannel(Channel):
    """A side of a channel. For one thread at a time."""

    _follow = False

    def __init__(self, ends: ChannelDescriptors) -> None:
        """Opens a side, and takes ownership of its descriptors.

        Raises:
            OSError: the memory cannot be mapped. The caller still owns the descriptors.
        """
        self._incoming = _Memory(ends.incoming)
        self._outgoing = _Memory(ends.outgoing)
        super().__init__(socket.socket(fileno=ends.socket))

    def close(self) -> None:
        """Closes the channel. May be called again."""
        super().close()
        self._incoming.close()
        self._outgoing.close()

    def _write(self, head: bytes, views: Sequence[memoryview]) -> None:
        memory, at = self._outgoing.writable(sum(_room(view.nbytes) for view in views)), 0
        for view in views:
            memory[at : at + view.nbytes] = view
            at += _room(view.nbytes)
        self._socket.sendall(head)

    def _fill_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        memory, at = self._incoming.readable(sum(_room(array.nbytes) for array in arrays)), 0
        for array in arrays:
            array[:] = np.frombuffer(memory, np.uint8, array.nbytes, at)
            at += _room(array.nbytes)


def open_channel() -> tuple[MemoryChannel, ChannelDescriptors]:
    """Returns this side of a new channel, and the descriptors of the other side.

    Raises:
        OSError: for example, too many files are open. Everything is closed again.
    """
    ours, theirs = open_sides(_FIRST_SIZE)
    try:
        return MemoryChannel(ours), theirs
    except OSError:  # no memory to map
        ours.close()
        theirs.close()
        raise


def _room(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
