"""The code of CUDA, run with torch on the CPU."""

from modelflow.device import lookup
from modelflow.device.torch_memory import TorchMemory

__all__ = ["OnCpu", "install"]


class OnCpu(TorchMemory):
    kind = "cuda"


def install(monkeypatch):
    """Makes ``cuda`` a device of this machine, whose memory is torch's on the CPU."""
    memory = OnCpu()
    monkeypatch.setitem(lookup.MEMORIES.instances, "cuda", memory)
    return memory
