"""Tests that an edge probe receives the outputs of every node."""

import threading

import numpy as np
import pytest

import modelflow
from modelflow.errors import EndOfStream, FlowUnitError

CHAIN = """digraph { fuse=auto input[type=input] half add output[type=output]
input -> half -> add -> output }"""
SPLIT = """digraph { input[type=input] small output[type=output] add
input -> small small:yes -> add -> output small:no -> output }"""


@modelflow.flowunit(is_compute_bound=True)
def half(number):
    """Halves a number."""
    if number % 2:
        raise modelflow.BadRequest(f"{number} is odd")
    return number // 2


@modelflow.flowunit(is_compute_bound=True)
def add(number):
    """Returns the number plus 1."""
    return number + 1


@modelflow.flowunit(kind="condition", outputs=("yes", "no"))
def small(number):
    """Routes numbers."""
    return "yes" if number < 3 else "no"


class Seen(dict[tuple[str, str], list[modelflow.Buffer]]):
    """The buffers that the probe received, by node and output."""

    def __call__(self, node, output, buffers):
        shown = [one.twin() for one in buffers]
        self.setdefault((node, output), []).extend(shown)

    def data(self, node, output):
        return [one.error.node if one.error else one.data for one in self[node, output]]


def run(text, units, values, **more):
    seen = Seen()
    with modelflow.Flow(text, units=units, tap=seen, **more) as flow:
        stream = flow.create_stream_io()
        for value in values:
            stream.send("input", value)
        stream.close_input()
        got = []
        while True:
            try:
                got.append(stream.recv("output").data)
            except FlowUnitError as error:
                got.append(error.node)
            except EndOfStream:
                return seen, got


@pytest.mark.parametrize("threads", [None, 0])
def test_every_output_is_shown_in_order_with_its_errors(threads):
    seen, got = run(CHAIN, [half, add], [2, 3, 8], threads=threads)
    assert got == [2, "half", 5]
    assert seen.data("input", "input") == [2, 3, 8]
    assert seen.data("half", "out") == [1, "half", 4]
    assert seen.data("add", "out") == [2, "half", 5]
    assert set(seen) == {("input", "input"), ("half", "out"), ("add", "out")}


def test_branches_are_shown_apart():
    seen, got = run(SPLIT, [small, add], [1, 5, 2])
    assert got == [2, 5, 3]
    assert seen.data("small", "yes") == [1, 2]
    assert seen.data("small", "no") == [5]


def test_who_keeps_what_was_shown_keeps_it_as_it_was():
    graph = """digraph { input[type=input] copy[flowunit=fresh] mean[flowunit=mean, mean="1,2,3"]
    output[type=output] input -> copy -> mean -> output }"""

    @modelflow.flowunit
    def fresh(number):
        """Returns a new array, in which the next units may write."""
        return np.full((4, 4, 3), number, np.float32)

    seen, (got,) = run(graph, [fresh], [9])
    assert (seen.data("copy", "out")[0] == 9).all()
    assert got[0, 0].tolist() == [8, 7, 6]


def test_requests_and_many_threads_are_shown_each_row_once():
    seen, lock, count = Seen(), threading.Lock(), 200

    def tap(*shown):
        with lock:
            seen(*shown)

    with modelflow.Flow(
        CHAIN, units=[half, add], tap=tap, overrides={"half.threads": 4, "half.batch_size": 3}
    ) as flow:
        for number, answer in flow.map(range(0, 2 * count, 2), in_flight=50):
            assert answer.data == number // 2 + 1
    assert sorted(seen.data("half", "out")) == list(range(count))
    assert sorted(seen.data("add", "out")) == list(range(1, count + 1))


def test_the_chains_of_the_graph_are_parted():
    with modelflow.Flow(CHAIN, units=[half, add]) as flow:
        assert len(flow.scheduler.plan.stages) == 1
    with modelflow.Flow(CHAIN, units=[half, add], tap=lambda *_: None) as flow:
        assert len(flow.scheduler.plan.stages) == 2
