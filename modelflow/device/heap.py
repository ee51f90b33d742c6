"""The memory of the process that is free, and may be the system's again."""

import ctypes
import gc
import sys

__all__ = ["give_memory_back"]


def give_memory_back() -> None:
    """Returns to the system what a closed model has left: cycles, and glibc's free lists."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
        if trim is not None:
            trim(0)
