"""Host memory that is reused: arrays whose block goes back to a pool when nobody holds them.

The C library gives big blocks back to the system and faults every page in again at the next
allocation, which costs about as much as resizing an image (``benchmarks/image_pipeline.py``).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_SMALLEST = 1 << 15
_MAX_IDLE = 1 << 28
_ALIGNMENT = 64


class _Block(np.ndarray[Any, Any]):
    """The memory itself.

    Block and lease are subclasses because NumPy collapses a chain of views whose types are equal
    to its last member: a plain array's base stays the lease only if the lease's base is no plain
    array.
    """


class Lease(np.ndarray[Any, Any]):
    """A view of a block; when the last array over it is gone, the block returns to the pool.

    One array is made over each lease and owns its memory; views of that array refer to the array.
    """

    __slots__ = ("pool",)

    pool: "ArrayPool"

    def __del__(self) -> None:
        block = self.base
        if type(block) is _Block:  # a view of a lease, which somebody has made, has none
            self.pool._give_back(block)


class ArrayPool:
    """Blocks of host memory by size class (powers of two and their halves in between).

    Safe to use from several threads. At most ``max_idle`` bytes wait for reuse: where a block finds
    no room, blocks leave of the size that nobody has asked for the longest.

    Attributes:
        allocations: How many blocks were taken from the system.
        reuses: How many were taken from the pool.
    """

    def __init__(
        self,
        max_idle: int = _MAX_IDLE,
        allocate: Callable[[int], npt.NDArray[np.uint8]] | None = None,
    ) -> None:
        """Makes an empty pool.

        Args:
            max_idle: Most bytes that wait for reuse.
            allocate: Takes a number of bytes from the system; None: NumPy does.
        """
        self.max_idle = max_idle
        self._allocate = allocate or _align
        self.allocations = 0
        self.reuses = 0
        self._idle_bytes = 0
        # By size, the one asked for last at the end. Sizes stay: there are two for a power of two.
        self._idle: OrderedDict[int, list[_Block]] = OrderedDict()
        # Re-entrant: the collector may run a lease's __del__ while this thread holds the lock.
        self._lock = threading.RLock()

    @property
    def idle_bytes(self) -> int:
        """How many bytes wait for reuse."""
        return self._idle_bytes

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Returns an uninitialised, C-contiguous, writable array of that shape and dtype.

        It begins at a multiple of 64 bytes. Small arrays (under 32 KiB) come from NumPy itself and
        begin where they may.
        """
        item = np.dtype(dtype)
        count = 1
        for extent in shape:
            count *= int(extent)  # NumPy's own integers may be too small for the product
        size = count * item.itemsize
        if size < _SMALLEST:
            return np.empty(shape, item)
        lease = Lease(size, np.uint8, self._take(_size_class(size)))
        lease.pool = self
        return np.ndarray(shape, item, lease)

    def _take(self, size: int) -> _Block:
        with self._lock:
            idle = self._idle.setdefault(size, [])
            self._idle.move_to_end(size)
            if idle:
                self.reuses += 1
                self._idle_bytes -= size
                return idle.pop()
            self.allocations += 1
        return self._allocate(size).view(_Block)

    def _give_back(self, block: _Block) -> None:
        size = block.nbytes
        most = self.max_idle - size  # of the others
        with self._lock:
            if self._idle_bytes > most >= 0:
                self._make_room(size, most)
            if self._idle_bytes <= most:
                self._idle_bytes += size
                self._idle[size].append(block)

    def _make_room(self, size: int, most: int) -> None:
        """Lets go of blocks of the sizes that were asked for before ``size`` was, oldest first.

        Until at most ``most`` bytes are left.
        """
        for other in [*self._idle]:
            if other == size:
                return
            while self._idle[other] and self._idle_bytes > most:
                try:
                    self._idle[other].pop()
                except IndexError:  # the collector has given back another one in the middle of this
                    break
                self._idle_bytes -= other


def _align(size: int) -> npt.NDArray[np.uint8]:
    # TensorFlow and oneDNN read an array where it lies only if it begins at a cache line.
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


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
    """Returns an uninitialised array from the process-wide host pool (see `ArrayPool.empty`).

    Flow units use it for their outputs: the memory is reused once every consumer is done with it.
    """
    return _host_pool.empty(shape, dtype)
