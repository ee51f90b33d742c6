"""The device ``cuda`` of the tests: a GPU if the machine has a GPU, else torch on the CPU."""

import os
from functools import cache

from modelflow.device import lookup
from modelflow.device.torch_memory import TorchMemory, load_torch

__all__ = ["OnCpu", "has_gpu", "install"]


class OnCpu(TorchMemory):
    kind = "cuda"


@cache
def has_gpu():
    """Returns whether PyTorch sees a GPU; with ``MODELFLOW_GPU=1``, a missing GPU is an error."""
    found = load_torch().cuda.is_available()
    assert found or not os.environ.get("MODELFLOW_GPU"), "PyTorch sees no GPU"
    return found


def install(monkeypatch):
    """Makes ``cuda`` a device of this machine if the machine has no GPU."""
    if not has_gpu():
        monkeypatch.setitem(lookup.MEMORIES.instances, "cuda", OnCpu())
