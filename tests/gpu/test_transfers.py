"""Tests of data between host and device, and between a device's workers: whole and ordered."""

import threading

import numpy as np
import pytest

import modelflow
from modelflow.device import host_pool
from modelflow.device.torch_memory import load_torch
from tests.torch_as_cuda import has_gpu

torch = load_torch()

# Long enough on a GPU (0.02 s) that a reader without a wait reads the old values.
_CYCLES = 40_000_000
_SHAPE = (512, 512)


def delay():
    """Keeps the current stream busy to delay the work that comes next."""
    if has_gpu():
        torch.cuda._sleep(_CYCLES)


class Late(modelflow.FlowUnit):
    """Returns ``in + 1``, whose values exist only long after the unit has returned."""

    def process(self, ctx):
        values = []
        for buffer in ctx.input():
            out = torch.zeros_like(buffer.data)
            delay()
            values.append(out.add_(buffer.data).add_(1))
        ctx.emit(values)


class Whole(modelflow.FlowUnit):
    """Returns ``in``, read on the unit's own stream."""

    def process(self, ctx):
        ctx.emit([buffer.data * 1 for buffer in ctx.input()])


def spec(name, unit):
    ports = {"inputs": (modelflow.Port("in"),), "outputs": (modelflow.Port("out"),)}
    return modelflow.FlowUnitSpec(name, {"cuda": unit}, **ports)


UNITS = [spec("late", Late), spec("whole", Whole)]


def flow_of(*names, **settings):
    more = " ".join(f"{name}={value}" for name, value in settings.items())
    nodes = " ".join(f"n{i} [flowunit={name}, device=cuda, {more}]" for i, name in enumerate(names))
    way = " -> ".join(["input", *(f"n{i}" for i in range(len(names))), "output"])
    text = f"digraph {{ input [type=input] output [type=output] {nodes} {way} }}"
    return modelflow.Flow(text, units=UNITS)


def exchange(flow, items):
    (found,) = flow.create_stream_io().exchange({"input": items}).values()
    return [buffer.data for buffer in found]


def arrays(count):
    return [np.full(_SHAPE, number, np.float32) for number in range(count)]


@pytest.mark.parametrize("chain", [("late",), ("late", "whole"), ("late", "late", "whole")])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_whoever_comes_next_sees_whole_results(chain, batch_size):
    items = arrays(12)
    with flow_of(*chain, batch_size=batch_size) as flow:
        found = exchange(flow, items)
    for item, result in zip(items, found, strict=True):
        np.testing.assert_array_equal(result, item + chain.count("late"))


def test_several_workers_of_a_node_keep_order_and_values():
    items = arrays(24)
    with flow_of("late", "whole", threads=3) as flow:
        found = exchange(flow, items)
    for item, result in zip(items, found, strict=True):
        np.testing.assert_array_equal(result, item + 1)


def test_staging_memory_is_not_used_again_before_it_is_read(memory, cuda):
    """Tests uploads after a busy stream: each has its own numbers when they are read at last."""
    uploaded = []
    with memory.running(cuda):
        delay()
        for number in range(32):
            uploaded += memory.upload([np.full(_SHAPE, number, np.float32)], cuda)
        found = memory.download(uploaded)
    for number, array in enumerate(found):
        np.testing.assert_array_equal(array, np.full(_SHAPE, number, np.float32))


def test_another_thread_waits_for_the_fence(memory, cuda):
    given = {}
    made, read = threading.Event(), threading.Event()

    def make():
        with memory.running(cuda):
            tensor = torch.zeros(_SHAPE, device=memory.torch_device(cuda))
            delay()
            given["tensor"] = tensor.add_(7)
            given["fence"] = memory.fence(cuda)
        made.set()
        read.wait()  # its stream continues to exist meanwhile

    maker = threading.Thread(target=make)
    maker.start()
    made.wait()
    with memory.running(cuda):
        memory.wait(given["fence"], [given["tensor"]])
        (found,) = memory.download([given["tensor"] * 2])
    read.set()
    maker.join()
    np.testing.assert_array_equal(found, np.full(_SHAPE, 14, np.float32))


def test_memory_that_is_freed_while_it_is_read_keeps_its_values(memory, cuda):
    """Tests that the maker's allocator gets the memory back only after the reader is done."""
    with memory.running(cuda):
        tensor = torch.full(_SHAPE, 3.0, device=memory.torch_device(cuda))
        fence = memory.fence(cuda)
    found = {}

    def read():
        nonlocal tensor
        with memory.running(cuda):
            memory.wait(fence, [tensor])
            delay()
            found["copy"] = tensor * 1
            tensor = None
            found["fence"] = memory.fence(cuda)

    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    with memory.running(cuda):
        others = [torch.zeros(_SHAPE, device=memory.torch_device(cuda)) for _ in range(4)]
        memory.wait(found["fence"], [found["copy"]])
        (copy,) = memory.download([found["copy"]])
    assert len(others) == 4
    np.testing.assert_array_equal(copy, np.full(_SHAPE, 3, np.float32))


def test_the_steady_state_takes_no_memory_from_the_system(memory):
    """Tests that all batches use the same blocks, of the pool and of the GPU's allocator."""
    pool = memory.pinned or host_pool()
    items = arrays(16)
    with flow_of("whole", "whole", batch_size=8, threads=1) as flow:
        for _ in range(5):
            exchange(flow, items)
        before = count_allocations(pool)
        for _ in range(40):
            exchange(flow, items)
        # The number of batches that are on their way at once may occasionally rise by one.
        assert count_allocations(pool) - before <= 3


def count_allocations(pool):
    """Returns the number of blocks of host memory and GPU memory that the system has supplied."""
    on_gpu = torch.cuda.memory_stats().get("num_device_alloc", 0) if has_gpu() else 0
    return pool.allocations + on_gpu
