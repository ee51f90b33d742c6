"""Shared memory of two processes: the writer copies arrays in, the reader reads them in place.

The writer allocates a slot for each array. The reader reports when no array uses the slot any more.
"""

import contextlib
import mmap
import os
import socket
from bisect import insort
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64


class ChannelDescriptors(NamedTuple):
    """The descriptors of one side of a channel or a link.

    Attributes:
        socket: A stream socket to the other process.
        incoming: The memory that this side reads.
        outgoing: The memory that this side writes.
    """

    socket: int
    incoming: int
    outgoing: int

    def close(self) -> None:
        """Closes the descriptors."""
        for descriptor in self:
            os.close(descriptor)


def new_memory(size: int) -> int:
    """Returns the descriptor of a new anonymous memory, which is freed after its last use."""
    descriptor = os.memfd_create("modelflow")
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_sides(size: int) -> tuple[ChannelDescriptors, ChannelDescriptors]:
    """Returns the descriptors of both sides of a new channel, with ``size`` bytes a memory.

    Raises:
        OSError: the process has too many descriptors. Everything is closed again.
    """
    with contextlib.ExitStack() as made:

        def keep(descriptor: int) -> int:
            made.callback(os.close, descriptor)
            return descriptor

        one, other = (keep(end.detach()) for end in socket.socketpair())
        there, back = keep(new_memory(size)), keep(new_memory(size))
        sides = (
            ChannelDescriptors(one, back, there),
            ChannelDescriptors(other, keep(os.dup(there)), keep(os.dup(back))),
        )
        made.pop_all()
    return sides


class SharedMemoryWriter:
    """The writing side of a shared memory. For one thread."""

    def __init__(self, descriptor: int) -> None:
        """Maps the memory. The caller still owns the descriptor."""
        self._size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, self._size)
        self._free = [(0, self._size)]  # (start, length) of free ranges; sorted, never adjacent
        self._taken: dict[int, int] = {}

    def put(self, array: npt.NDArray[Any]) -> int | None:
        """Copies an array into a slot. Returns the start of the slot, or None without room."""
        where = self._take(array.nbytes)
        if where is not None:
            np.ndarray(array.shape, array.dtype, self._map, where)[...] = array
        return where

    def put_bytes(self, parts: list[bytes], size: int) -> int | None:
        """Copies several ``bytes`` into a slot, without gaps; see `put`."""
        where = self._take(size)
        if where is not None:
            at = where
            for part in parts:
                self._map[at : at + len(part)] = part
                at += len(part)
        return where

    def free(self, where: int) -> None:
        """Frees a slot."""
        length = self._taken.pop(where)
        insort(self._free, (where, length))
        place = self._free.index((where, length))
        for left in (place, place - 1):
            if 0 <= left < len(self._free) - 1:
                (start, size), (after, more) = self._free[left : left + 2]
                if start + size == after:
                    self._free[left : left + 2] = [(start, size + more)]

    def close(self) -> None:
        """Closes the memory. After that, `put` finds no room."""
        self._free.clear()
        self._map.close()

    @property
    def taken(self) -> int:
        """The number of allocated slots."""
        return len(self._taken)

    def _take(self, size: int) -> int | None:
        length = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        for place, (start, free) in enumerate(self._free):
            if free >= length:
                if free == length:
                    del self._free[place]
                else:
                    self._free[place] = (start + length, free - length)
                self._taken[start] = length
                return start
        return None


class SharedMemoryReader:
    """The reading side of a shared memory, which returns read-only arrays in place."""

    def __init__(self, descriptor: int, on_unused: Callable[[int], object]) -> None:
        """Maps the memory. The caller still owns the descriptor.

        Args:
            descriptor: The memory.
            on_unused: Called with a slot when its array and all views are gone. Called at any time
                from the thread that drops the last view, so it must do almost nothing.
        """
        size = os.fstat(descriptor).st_size
        self._view = memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
        self._on_unused = on_unused
        self._shown: dict[int, ref[npt.NDArray[Any]]] = {}

    def show(self, where: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Returns the array in a slot, without a copy."""
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, self._view, where)

        def on_gone(_: object) -> None:
            self._shown.pop(where, None)
            self._on_unused(where)

        # Views hold a reference to the array. The array is therefore deleted after its last view.
        self._shown[where] = ref(array, on_gone)
        return array

    def close(self) -> None:
        """Closes the memory. Arrays that are still in use stay valid."""
        self._view = memoryview(b"")

    def read(self, where: int, size: int) -> bytes:
        """Returns a copy of the bytes in a slot, and reports the slot as unused."""
        found = bytes(self._view[where : where + size])
        self._on_unused(where)
        return found
