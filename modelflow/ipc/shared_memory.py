"""Memory that two processes share: one writes arrays into it, the other reads them where they lie.

Who writes takes a slot; who reads says when nothing looks into it any more.
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
    """What a process needs to take up its side of a channel, or of a link: descriptors.

    Attributes:
        socket: A stream socket whose other end the other process has.
        incoming: The memory that it reads.
        outgoing: The memory that it writes.
    """

    socket: int
    incoming: int
    outgoing: int

    def close(self) -> None:
        """Gives them up."""
        for descriptor in self:
            os.close(descriptor)


def new_memory(size: int) -> int:
    """Returns the descriptor of memory that has no name: it is freed when nobody has it."""
    descriptor = os.memfd_create("modelflow")
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_sides(size: int) -> tuple[ChannelDescriptors, ChannelDescriptors]:
    """Returns the descriptors of both sides of a new channel, each memory of so many bytes.

    Raises:
        OSError: there are too many descriptors; nothing is left of it.
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
    """The side that writes. For one thread."""

    def __init__(self, descriptor: int) -> None:
        """Maps the memory; the descriptor stays the caller's."""
        self._size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, self._size)
        self._free = [(0, self._size)]  # where, how long; in order, none beside another
        self._taken: dict[int, int] = {}

    def put(self, array: npt.NDArray[Any]) -> int | None:
        """Copies an array into a slot; returns where that is. None: there is no room."""
        where = self._take(array.nbytes)
        if where is not None:
            np.ndarray(array.shape, array.dtype, self._map, where)[...] = array
        return where

    def put_bytes(self, parts: list[bytes], size: int) -> int | None:
        """Copies bytes into a slot, one behind the other; see `put`."""
        where = self._take(size)
        if where is not None:
            at = where
            for part in parts:
                self._map[at : at + len(part)] = part
                at += len(part)
        return where

    def free(self, where: int) -> None:
        """Takes a slot back."""
        length = self._taken.pop(where)
        insort(self._free, (where, length))
        place = self._free.index((where, length))
        for left in (place, place - 1):
            if 0 <= left < len(self._free) - 1:
                (start, size), (after, more) = self._free[left : left + 2]
                if start + size == after:
                    self._free[left : left + 2] = [(start, size + more)]

    def close(self) -> None:
        """Gives the memory up: there is no room any more."""
        self._free.clear()
        self._map.close()

    @property
    def taken(self) -> int:
        """How many slots are taken."""
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
    """The side that reads: arrays over the memory itself, which nobody can write to."""

    def __init__(self, descriptor: int, on_unused: Callable[[int], object]) -> None:
        """Maps the memory; the descriptor stays the caller's.

        Args:
            descriptor: The memory.
            on_unused: Called with a slot when its array, and all views of it, are gone; from
                whichever thread has dropped the last, at any moment: it may do next to nothing.
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

        # Views of the array hold the array itself: it goes with the last of them.
        self._shown[where] = ref(array, on_gone)
        return array

    def close(self) -> None:
        """Shows nothing more. What was shown stays as it is, for whoever has it."""
        self._view = memoryview(b"")

    def read(self, where: int, size: int) -> bytes:
        """Returns a copy of what is in a slot, which is not used any more."""
        found = bytes(self._view[where : where + size])
        self._on_unused(where)
        return found
