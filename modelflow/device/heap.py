"""The memory of the process: what is free may be the system's again, what stays is left alone."""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

_is_settled = False


@contextlib.contextmanager
def freeze_heap() -> Iterator[None]:
    """Inside the block Python's garbage collector leaves alone what has been there for long.

    For a process that is a server's own. A sweep of everything that the packages and models of a
    server are made of takes 26 ms for the smallest, with TensorFlow ten times as long, and nobody
    is answered meanwhile.
    """
    global _is_settled  # noqa: PLW0603 - there is one heap, and one collector
    before, _is_settled = _is_settled, True
    settle_heap()
    try:
        yield
    finally:
        _is_settled = before
        if not before:
            gc.unfreeze()


def settle_heap() -> None:
    """Notes, inside `freeze_heap`, that what is there now stays: a model was loaded."""
    if _is_settled:
        gc.collect()
        gc.freeze()


def give_memory_back() -> None:
    """Returns to the system what a closed model has left: cycles, and glibc's free lists."""
    if _is_settled:
        gc.unfreeze()
    gc.collect()
    if _is_settled:
        gc.freeze()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
        if trim is not None:
            trim(0)
