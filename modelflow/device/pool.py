"""A pool of host memory: the block of an array returns to the pool after its last use.

The C library returns big blocks to the system. The next allocation then faults every page in again,
which costs about as much as resizing an image (``benchmarks/image_pipeline.py``).

A block returns to the thread that took it, and that thread takes it again. The memory is then still
in the cache of that thread's processor. For two threads that decode and resize images, this saves
0.03 ms an image of 640x480.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.signals import new_lock

_SMALLEST = 1 << 15
_MAX_IDLE = 1 << 28
_ALIGNMENT = 64


class _Block(np.ndarray[Any, Any]):
    """The memory of one pool block.

    Block and lease are subclasses because NumPy collapses a chain of views whose types are equal
    to its last member: a plain array's base stays the lease only if the lease's base is no plain
    array.
    """

    __slots__ = ("thread",)

    thread: int
    """The thread that has used the block last, by `threading.get_ident`."""


class Lease(np.ndarray[Any, Any]):
    """A view of a block; the block returns to the pool when no array uses the lease.

    One array is made over each lease and owns its memory. Views of this array refer to the array.
    """

    __slots__ = ("pool",)

    pool: "ArrayPool"

    def __del__(self) -> None:
        block = self.base
        if type(block) is _Block:  # false for a view of a lease, which does not own the block
            self.pool._give_back(block)


class ArrayPool:
    """A pool of host memory blocks by size class (powers of two and their halves in between).

    Any thread may use the pool. At most ``max_idle`` bytes are kept for reuse. To make room for a
    block, the pool frees blocks of the size that was requested least recently.

    Attributes:
        allocations: The number of blocks taken from the system.
        reuses: The number of blocks taken from the pool.
    """

    def __init__(
        self,
        max_idle: int = _MAX_IDLE,
        allocate: Callable[[int], npt.NDArray[np.uint8]] | None = None,
    ) -> None:
        """Creates an empty pool.

        Args:
            max_idle: The most bytes that are kept for reuse.
            allocate: Allocates a number of bytes. By default NumPy does.
        """
        self.max_idle = max_idle
        self._allocate = allocate or _align
        self.allocations = 0
        self.reuses = 0
        self._idle_bytes = 0
        # By size class, the last requested at the end, and by thread. There are two classes per
        # power of two, so the classes need no cleanup. A thread without blocks is removed.
        self._idle: OrderedDict[int, dict[int, list[_Block]]] = OrderedDict()
        # Re-entrant: the garbage collector may run a lease's __del__ while this thread holds the
        # lock.
        self._lock = new_lock()

    @property
    def idle_bytes(self) -> int:
        """The number of bytes that are kept for reuse."""
        return self._idle_bytes

    def empty(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8, offset: int = 0
    ) -> npt.NDArray[Any]:
        """Returns an uninitialised, C-contiguous, writable array of that shape and dtype.

        The array begins ``offset`` bytes after a multiple of 64 bytes. Small arrays (under 32 KiB)
        come from NumPy itself, without this alignment.
        """
        item = np.dtype(dtype)
        count = 1
        for extent in shape:
            count *= int(extent)  # NumPy's own integers may be too small for the product
        size = count * item.itemsize
        if size < _SMALLEST:
            return np.empty(shape, item)
        size += offset
        lease = Lease(size, np.uint8, self._take(_size_class(size)))
        lease.pool = self
        return np.ndarray(shape, item, lease, offset)

    def _take(self, size: int) -> _Block:
        thread = threading.get_ident()
        with self._lock:
            idle = self._idle.setdefault(size, {})
            self._idle.move_to_end(size)
            block = _pop(idle, thread)
            if block is None:
                self.allocations += 1
            else:
                self.reuses += 1
                self._idle_bytes -= size
        if block is None:
            block = self._allocate(size).view(_Block)
        block.thread = thread
        return block

    def _give_back(self, block: _Block) -> None:
        size = block.nbytes
        most = self.max_idle - size  # for the other blocks
        with self._lock:
            if self._idle_bytes > most >= 0:
                self._make_room(size, most)
            if self._idle_bytes <= most:
                self._idle_bytes += size
                self._idle[size].setdefault(block.thread, []).append(block)

    def _make_room(self, size: int, most: int) -> None:
        """Frees blocks until at most ``most`` bytes are kept.

        The sizes requested least recently come first. Sizes requested after ``size`` are kept.
        """
        for other in [*self._idle]:
            if other == size:
                return
            while self._idle_bytes > most and _pop(self._idle[other], 0) is not None:
                self._idle_bytes -= other


def _pop(idle: dict[int, list[_Block]], thread: int) -> _Block | None:
    """Removes and returns a block, preferably of that thread; None without blocks."""
    try:
        if thread not in idle:
            thread = next(iter(idle))
        blocks = idle[thread]
        block = blocks.pop()
        if not blocks:
            del idle[thread]
    # Empty, or the garbage collector has returned another block meanwhile, and so made room.
    except (StopIteration, LookupError, RuntimeError):
        return None
    return block


def _align(size: int) -> npt.NDArray[np.uint8]:
    # TensorFlow and oneDNN use an array without a copy only if it begins at a cache line.
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size]


@lru_cache(maxsize=256)
def _size_class(size: int) -> int:
    power = 1 << (size - 1).bit_length()
    between = power // 4 * 3
    return between if size <= between else power


_host_pool = ArrayPool()


def host_pool() -> ArrayPool:
    """Returns the process-wide pool of host memory, for its counters."""
    return _host_pool


def empty(
    shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8, offset: int = 0
) -> npt.NDArray[Any]:
    """Returns an uninitialised array from the process-wide host pool (see `ArrayPool.empty`).

    Flow units use it for their outputs: the memory is reused after the last consumer has released
    it.

    Args:
        shape: The shape.
        dtype: The type of the items.
        offset: The bytes between a multiple of 64 and the array; a multiple of the size of an item.
    """
    return _host_pool.empty(shape, dtype, offset)
