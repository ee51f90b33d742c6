"""Costs of a run that do not depend on load: instructions, calls, context switches."""

import contextlib
import ctypes
import itertools
import os
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable
from fcntl import ioctl
from types import FrameType
from typing import Protocol

__all__ = ["Calls", "Counter", "CpuTime", "Instructions", "Switches", "cost"]

_PERF_EVENT_OPEN = 298  # x86-64
_RESET, _ENABLE = 0x2403, 0x2400
# disabled | inherit | exclude_kernel | exclude_hv
_FLAGS = (1 << 0) | (1 << 1) | (1 << 5) | (1 << 6)


class Counter(Protocol):
    """A count that only grows while a program runs."""

    def read(self) -> int:
        """Returns the count so far."""

    def close(self) -> None:
        """Stops the count."""


class Instructions:
    """Counts the user instructions of this process, threads that start later included."""

    def __init__(self) -> None:
        """Opens the counter.

        Raises:
            OSError: the system has none, or does not allow it.
        """
        attributes = struct.pack("<IIQQQQQ", 0, 120, 1, 0, 0, 0, _FLAGS).ljust(120, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.syscall(_PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        ioctl(self._fd, _RESET)
        ioctl(self._fd, _ENABLE)

    def read(self) -> int:
        """Returns the count so far."""
        (count,) = struct.unpack("<Q", os.read(self._fd, 8))
        return int(count)

    def close(self) -> None:
        """Closes the counter."""
        os.close(self._fd)


class CpuTime:
    """Counts the processor time of this process in nanoseconds, in place of instructions."""

    def read(self) -> int:
        """Returns the count so far."""
        return time.process_time_ns()

    def close(self) -> None:
        """Does nothing."""


class Switches:
    """Counts how often a thread of this process gave up its processor to wait."""

    def read(self) -> int:
        """Returns the count so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    def close(self) -> None:
        """Does nothing."""


class Calls:
    """Counts the calls of Python functions in this thread and in threads that start later."""

    def __init__(self) -> None:
        """Begins to count. The program is slower by far until `close`."""
        self._calls = itertools.count()
        self._read = 0
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002
        if event == "call":
            next(self._calls)  # a call of C code: several threads may increase the count at once

    def read(self) -> int:
        """Returns the count so far."""
        self._read += 1
        return next(self._calls) - self._read

    def close(self) -> None:
        """Stops the count."""
        sys.setprofile(None)
        threading.setprofile(None)


def cost(run: Callable[[int], object], items: int, counter: Callable[[], Counter]) -> float:
    """Returns the cost of an item: the slope between ``items`` and three times as many.

    Args:
        run: Called with the number of items.
        items: A number of items that shows the cost.
        counter: Makes a counter.
    """
    # Work that a process does once, such as imports and the filling of caches, is not counted.
    run(items // 4)
    with contextlib.closing(counter()) as count:
        run(items // 4)
        found = [count.read()]
        for many in (items, 3 * items):
            run(many)
            found.append(count.read())
    return (found[0] - 2 * found[1] + found[2]) / (2 * items)
