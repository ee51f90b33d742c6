"""Channels between processes of one machine, whose arrays go through shared memory.

Their bytes are copied into an anonymous file that both sides map. The file has no name: the system
frees it when both processes are gone, however they end.
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
# So many bytes are kept for the messages to come, whatever their size.
_KEPT = 64 << 20


class _Memory:
    """An anonymous file, mapped; the side that writes makes it larger where a message needs it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        self._filled = 0

    def writable(self, size: int) -> mmap.mmap:
        """Returns its memory, of so many bytes at the least; what was in it has been read.

        Raises:
            MessageError: there is none.
        """
        if self._filled > max(_KEPT, 4 * size):  # of a message larger than others: given back
            self._map.madvise(mmap.MADV_REMOVE)
            self._filled = 0
        self._filled = max(self._filled, size)
        return self._map_memory(size, lambda: os.ftruncate(self._fd, 1 << (size - 1).bit_length()))

    def readable(self, size: int) -> mmap.mmap:
        """Returns its memory, in which the other side has written so many bytes.

        Raises:
            MessageError: it cannot be mapped.
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
        if not self._map.closed:  # the descriptor may be of something else by now
            self._map.close()
            os.close(self._fd)


class MemoryChannel(Channel):
    """One side of a channel. For one thread at a time."""

    _follow = False

    def __init__(self, ends: ChannelDescriptors) -> None:
        """Takes up a side, whose descriptors are its own from now on.

        Raises:
            OSError: its memory cannot be mapped; the descriptors are still the caller's.
        """
        self._incoming = _Memory(ends.incoming)
        self._outgoing = _Memory(ends.outgoing)
        super().__init__(socket.socket(fileno=ends.socket))

    def close(self) -> None:
        """Gives everything back; once more does nothing."""
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
    """Returns this side of a new channel, and what the other one is taken up with.

    Raises:
        OSError: too many files are open, say; nothing is left of it.
    """
    ours, theirs = open_sides(_FIRST_SIZE)
    try:
        return MemoryChannel(ours), theirs
    except OSError:  # there is no memory to map
        ours.close()
        theirs.close()
        raise


def _room(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
