"""Counters in memory that all processes of a server share, for quotas and logs."""

import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

SLOTS = 8192
"""The number of slots for keys with limits."""

SLOT_WORDS = 10
"""The words of a slot: two of a key's digest, then window and count of four limits."""

_HEADER_WORDS = 8
_WORD = 8  # bytes

SIZE = (_HEADER_WORDS + SLOTS * SLOT_WORDS) * _WORD
"""The bytes of the memory."""


class Counted(IntEnum):
    """The counters outside the slots."""

    REFUSED_REQUESTS = 0
    """Requests beyond a limit on requests."""
    REFUSED_ROWS = 1
    """Requests beyond a limit on rows."""
    LOGGED = 2
    """Events that the payload log has written."""
    LOST = 3
    """Events that the payload log has dropped."""


def make_memory() -> int:
    """Returns the descriptor of new memory, which child processes may inherit.

    Raises:
        OSError: The process has too many descriptors.
    """
    descriptor = os.memfd_create("modelflow-counts")
    os.ftruncate(descriptor, SIZE)
    return descriptor


class SharedCounts:
    """The counters of a server. Call the methods from any thread.

    The counters survive the end of a process, because the supervisor holds the memory.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Maps the memory.

        Args:
            descriptor: The memory from `make_memory`, which the object owns. None for memory of
                this process alone.
        """
        self._descriptor = descriptor
        self._memory = mmap.mmap(-1 if descriptor is None else descriptor, SIZE)
        self._words = memoryview(self._memory).cast("Q")
        # The lock of the file keeps other processes out, but not other threads of this process.
        self._lock = threading.Lock()

    @contextmanager
    def lock(self) -> Iterator[memoryview]:
        """Yields the words of the memory, while no other thread or process uses them.

        The system frees the lock of a process that is killed inside the block.
        """
        with self._lock:
            if self._descriptor is None:
                yield self._words
                return
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield self._words
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def add(self, counted: Counted, amount: int = 1) -> None:
        """Adds to a counter."""
        with self.lock() as words:
            words[counted] += amount

    def read(self, counted: Counted) -> int:
        """Returns a counter."""
        with self.lock() as words:
            return int(words[counted])

    def close(self) -> None:
        """Unmaps the memory. May be called again."""
        with self._lock:
            self._words.release()
            self._memory.close()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def slot_start(place: int) -> int:
    """Returns the first word of a slot."""
    return _HEADER_WORDS + place * SLOT_WORDS
