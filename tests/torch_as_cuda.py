"""The device ``cuda`` of the tests: a GPU where there is one, else torch on the CPU."""

import os
from functools import cache

from modelflow.device import lookup
from modelflow.device.torch_memory import TorchMemory, load_torch

__all__ = ["OnCpu", "has_gpu", "install"]


class OnCpu(TorchMemory):
    kind = "cuda"


@cache
def has_gpu():
    """Tells whether PyTorch sees a GPU; ``MODELFLOW_GPU=1`` says that it must."""
    found = load_torch().cuda.is_available()
    assert found or not os.environ.get("MODELFLOW_GPU"), "PyTorch sees no GPU"
    return found


def install(monkeypatch):
    """Makes ``cuda`` a device of this machine, if it is none."""
    if not has_gpu():
        monkeypatch.setitem(lookup.MEMORIES.instances, "cuda", OnCpu())
