"""Queries the CUDA driver about its devices, without loading a GPU framework."""

import ctypes
from functools import cache


@cache
def device_count() -> int:
    """Returns the number of CUDA devices that the driver sees; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:  # no driver on this machine
        return 0
    count = ctypes.c_int(0)
    # CUresult 0 is CUDA_SUCCESS. Any other value means that no device can be used.
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def total_memory(index: int) -> int:
    """Returns the bytes of memory of the CUDA device ``index``, which must exist."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, size = ctypes.c_int(), ctypes.c_size_t()
    driver.cuInit(0)
    if driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        raise ValueError(f"cuda:{index}: the driver has no such device")
    if driver.cuDeviceTotalMem_v2(ctypes.byref(size), device) != 0:
        raise ValueError(f"cuda:{index}: the driver does not say how much memory it has")
    return size.value
