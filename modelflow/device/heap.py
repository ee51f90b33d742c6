"""Controls Python's garbage collector, and returns free memory to the system."""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable, Iterator

_is_settled = False
# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, with bytes. By default it returns the memory of a
# body of 150 kB to the system, and the next body faults every page in again. Bodies of 600 kB then
# cost 0.87x the processor time (benchmarks/serving.py).
_KEPT = ((-1, 64 << 20), (-3, 32 << 20))


@contextlib.contextmanager
def freeze_heap() -> Iterator[None]:
    """Makes Python's garbage collector skip long-lived objects inside the block.

    For a process that only runs a server. The C library also keeps more freed memory, from now on
    until `give_memory_back`. A collection of all objects of a server's packages and
    models takes 26 ms for the smallest server. With TensorFlow it takes ten times as long. No
    request is answered meanwhile.
    """
    global _is_settled  # noqa: PLW0603 - a process has one heap and one collector
    before, _is_settled = _is_settled, True
    if (set_option := _find_glibc("mallopt")) is not None:
        for option, size in _KEPT:
            set_option(option, size)
    settle_heap()
    try:
        yield
    finally:
        _is_settled = before
        if not before:
            gc.unfreeze()


def settle_heap() -> None:
    """Marks the present objects as long-lived, after a model was loaded, inside `freeze_heap`."""
    if _is_settled:
        gc.collect()
        gc.freeze()


def give_memory_back() -> None:
    """Frees the memory of a closed model: reference cycles, and glibc's free lists."""
    if _is_settled:
        gc.unfreeze()
    gc.collect()
    if _is_settled:
        gc.freeze()
    trim = _find_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _find_glibc(name: str) -> Callable[..., int] | None:
    """Returns a function of glibc, or None for another C library."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
