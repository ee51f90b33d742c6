"""Tests of a unit that limits the number of rows for each batch."""

import threading

import pytest

from modelflow import Flow, FlowUnit, FlowUnitSpec, Port
from modelflow.errors import EndOfStream

GRAPH = """digraph {{
    input [type=input]; output [type=output]
    wanting [queue_size=64, batch_size=8, threads={threads}, batch_timeout_ms={wait}]
    input -> wanting -> output
}}"""


def wanting(most, go):
    """Returns a unit that wants at most ``most`` rows, and the list of the batch sizes."""
    sizes = []

    class Wanting(FlowUnit):
        def process(self, ctx):
            go.wait()
            sizes.append(len(ctx.inputs["input"]))
            ctx.emit(list(ctx.input()))

        def most_rows(self):
            return most[0]

    spec = FlowUnitSpec(
        "wanting", {"cpu": Wanting}, (Port("input"),), (Port("output"),), is_shared=True
    )
    return spec, sizes


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("wait", [0, 5])
@pytest.mark.parametrize(("most", "largest"), [(1, 1), (3, 3), (8, 8), (100, 8), (0, 1)])
def test_no_batch_has_more_rows_than_the_unit_wants(threads, wait, most, largest):
    go = threading.Event()
    spec, sizes = wanting([most], go)
    with Flow(GRAPH.format(threads=threads, wait=wait), units=[spec]) as flow:
        stream = flow.create_stream_io()
        for value in range(40):
            stream.send("input", value)
        stream.close_input()
        go.set()
        assert [buffer.data for buffer in stream] == [*range(40)]
    assert sum(sizes) == 40
    assert max(sizes) == largest


def test_it_is_asked_anew_for_each_batch():
    go, most = threading.Event(), [2]
    spec, sizes = wanting(most, go)
    with Flow(GRAPH.format(threads=1, wait=0), units=[spec]) as flow:
        stream = flow.create_stream_io()
        for value in range(30):
            stream.send("input", value)
        stream.close_input()
        most[0] = 5
        go.set()
        with pytest.raises(EndOfStream):
            while True:
                stream.recv("output")
    assert set(sizes) <= {1, 2, 5}
    assert sizes.count(5) >= 4


def test_it_is_asked_as_before_where_batches_are_to_wait_from_now_on():
    go, most = threading.Event(), [3]
    spec, sizes = wanting(most, go)
    graph = GRAPH.format(threads=1, wait=0).replace("batch_size=8", "batch_size=1")
    with Flow(graph, units=[spec]) as flow:
        flow.reconfigure({"wanting.batch_timeout_ms": 60_000, "wanting.batch_size": 8})
        go.set()
        stream = flow.create_stream_io()
        for value in range(6):
            stream.send("input", value)
        assert [stream.recv("output", timeout=30).data for _ in range(6)] == [*range(6)]
        closed = flow.stats()["wanting"].closed
    assert sizes == [3, 3]
    assert closed == {"full": 2}
