"""Tests of arrays in shared memory, from the network to units and back."""

import gc
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import modelflow
from modelflow.serve.server import ServeOptions
from tests.serve.clients import send
from tests.serve.processes.linked import Linked

GRAPH = """
[graph]
graphconf = '''digraph m {
    x [type=input]
    keep [batch_size=4]
    y [type=output]
    x -> keep -> y
}'''
[serve.input.x]
datatype = "FP32"
shape = [-1]
[serve.output.y]
datatype = "FP32"
shape = [-1]
"""


class Keeper:
    """A unit that returns its input and keeps a reference."""

    def __init__(self):
        self.kept = []
        self.lock = threading.Lock()

    @property
    def unit(self):
        def keep(x):
            with self.lock:
                self.kept.append(x[1:])
            return x

        return modelflow.flowunit(name="keep")(keep)


def ask(server, array):
    """Sends an array in binary form; returns the reply."""
    size = {"binary_data_size": array.nbytes}
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, array.size], "parameters": size}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    length = "Inference-Header-Content-Length"
    status, headers, found = send(
        server, "POST", "/v2/models/m/infer", head + array.tobytes(), {length: str(len(head))}
    )
    assert status == 200, found
    return np.frombuffer(found[int(headers[length.lower()]) :], np.float32)


@pytest.fixture
def keeper():
    from modelflow.unit import function

    yield Keeper()
    function._declared.pop("keep", None)


def test_arrays_are_whole_whoever_keeps_them_and_their_memory_comes_back(keeper):
    arrays = [np.full(size, size, np.float32) for size in (10, 3000, 150_000, 400_000)] * 6
    flow = modelflow.Flow(GRAPH, units=[keeper.unit])
    with Linked({"m": flow}, ServeOptions(http_port=0)) as server, ThreadPoolExecutor(8) as pool:
        for array, found in zip(
            arrays, pool.map(lambda one: ask(server, one), arrays), strict=True
        ):
            np.testing.assert_array_equal(found, array)
        (counter,) = server.inside.counters
        there = server.outside._stock._remote_models[0]._link._packer.memory_writer
        back = counter._link._packer.memory_writer
        large = [one for one in keeper.kept if one.nbytes > 10_000]
        gc.collect()
        while there.taken > len(large) or back.taken:
            ask(server, arrays[0])
        assert there.taken == len(large)
        assert all((one == one[0]).all() for one in large)  # the memory was not overwritten since
        del large
        keeper.kept.clear()
        while there.taken:  # a waiting thread still holds its last batch
            ask(server, arrays[0])
            keeper.kept.clear()
            gc.collect()


def test_what_finds_no_room_goes_through_the_socket(keeper):
    array = np.arange(3 << 20, dtype=np.float32)  # 12 MiB: five of them fill the memory
    flow = modelflow.Flow(GRAPH, units=[keeper.unit])
    with Linked({"m": flow}, ServeOptions(http_port=0)) as server:
        for _ in range(7):
            np.testing.assert_array_equal(ask(server, array), array)
        assert len(keeper.kept) == 7
        assert server.outside._stock._remote_models[0]._link._packer.memory_writer.taken == 5
