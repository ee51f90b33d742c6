"""CUDA devices as the driver reports them, without loading a GPU framework."""

import ctypes
from functools import cache

__all__ = ["device_count"]


@cache
def device_count() -> int:
    """Returns how many CUDA devices the driver sees; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:  # no driver on this machine
        return 0
    count = ctypes.c_int(0)
    # CUresult 0 is CUDA_SUCCESS; anything else means that no device can be used.
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
