"""Figures of the machine's GPUs, from the package nvidia-ml-py."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def gpu_figures() -> list[tuple[str, dict[str, float]]]:
    """Returns the UUID of each GPU with its figures; empty without GPUs or without the package.

    The figures are ``utilization`` (0 to 1), and ``total`` and ``used`` bytes of memory. The driver
    stays open for the next call, because opening takes long.
    """
    if find_spec("pynvml") is None:
        return []
    nvml = import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # a machine without a GPU, or without its driver
        return []
    return [_figures_of(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]


def _figures_of(nvml: Any, number: int) -> tuple[str, dict[str, float]]:
    device = nvml.nvmlDeviceGetHandleByIndex(number)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    share = nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
    values = {"utilization": share, "total": memory.total, "used": memory.used}
    return nvml.nvmlDeviceGetUUID(device), values
