"""Tests of low memory, and of an end while kernels run."""

import gc
from typing import ClassVar

import numpy as np
import pytest

import modelflow
from modelflow.device.torch_memory import load_torch
from tests.gpu.test_transfers import UNITS, arrays, delay, spec
from tests.torch_as_cuda import has_gpu

torch = load_torch()

_MIB = 1 << 20


class Large(modelflow.FlowUnit):
    """Needs 256 MiB of the GPU for each item of a batch."""

    calls: ClassVar[list[int]] = []

    def process(self, ctx):
        buffers = ctx.input()
        self.calls.append(len(buffers))
        room = torch.empty(256 * _MIB * len(buffers), dtype=torch.uint8, device="cuda")
        ctx.emit([buffer.data + room.numel() * 0 for buffer in buffers])


@pytest.fixture
def room(cuda):
    """Leaves this process 700 MiB of the GPU in addition to its present memory."""
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    most = torch.cuda.memory_reserved() + 700 * _MIB
    torch.cuda.set_per_process_memory_fraction(most / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.cuda
def test_a_batch_too_large_for_the_memory_is_halved(room, monkeypatch):
    monkeypatch.setattr(Large, "calls", [])
    text = (
        "digraph { input [type=input] large [device=cuda, batch_size=8, threads=1] "
        "output [type=output] input -> large -> output }"
    )
    with modelflow.Flow(text, units=[spec("large", Large)]) as flow:
        for _ in range(2):
            items = arrays(8)
            (found,) = flow.create_stream_io().exchange({"input": items}).values()
            for item, buffer in zip(items, found, strict=True):
                np.testing.assert_array_equal(buffer.data, item)
    assert max(Large.calls) > 2 >= min(Large.calls)


@pytest.mark.parametrize("end", ["stop", "cancel"])
def test_a_flow_ends_while_kernels_run(end):
    before = torch.cuda.memory_allocated() if has_gpu() else 0
    text = (
        "digraph { input [type=input] output [type=output] "
        "a [flowunit=late, device=cuda, queue_size=4] b [flowunit=late, device=cuda] "
        "input -> a -> b -> output }"
    )
    flow = modelflow.Flow(text, units=UNITS).start()
    stream = flow.create_stream_io()
    for array in arrays(3):
        stream.send("input", array)
    delay()
    if end == "cancel":
        stream.cancel()
    del stream
    flow.stop()
    with modelflow.Flow(text, units=UNITS) as again:
        assert float(again.infer(np.zeros(1, np.float32)).data[0]) == 2
    if has_gpu():
        torch.cuda.synchronize()
        del flow, again
        gc.collect()
        assert torch.cuda.memory_allocated() <= before
