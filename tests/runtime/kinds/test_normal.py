"""A batch at a time; only the guilty rows fail, and nothing of a call is kept."""

import gc
import weakref

import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.unit.kind import Kind
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of


class Local:
    """Something in a local variable of a unit's call."""


@pytest.mark.parametrize(
    "kind", [Kind.NORMAL, Kind.STREAM, Kind.EXPAND, Kind.CONDITION, Kind.LOOP, Kind.COLLAPSE]
)
def test_a_kept_error_does_not_keep_the_locals_of_its_call(kind):
    seen = []

    def deep():
        inner = Local()
        seen.append(weakref.ref(inner))
        raise KeyError("the cause")

    def helper(ctx):
        try:
            deep()
        except KeyError as error:
            raise ValueError("no good") from error

    def process(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        helper(ctx)

    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    outputs = ("out", "back") if kind is Kind.LOOP else ("out",)
    spec = unit_of(process, kind=kind, outputs=outputs)
    nodes = {"input": "input", "u": spec, "output": "output"}
    edges = ["input -> u", "u -> output"]
    if kind is Kind.COLLAPSE:
        nodes["expand"] = unit_of(same, kind=Kind.EXPAND)
        edges = ["input -> expand", "expand -> u", "u -> output"]
    if kind is Kind.LOOP:
        nodes["body"] = spec_of()
        edges = ["input -> u", "u:out -> output", "u:back -> body", "body -> u"]
    with Running(graph_of(nodes, edges)) as flow:
        stream = flow.session()
        for i in range(8):
            stream.send("input", i)
        kept = [stream.recv_buffer().error for _ in range(8)]
    gc.collect()
    assert all(error is not None for error in kept)
    assert len(seen) >= 16
    assert [ref() for ref in seen if ref() is not None] == []


def test_the_errors_that_a_session_keeps_do_not_keep_the_locals_of_their_calls():
    seen = []

    def process(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        raise ValueError("no good")

    nodes = {"input": "input", "sink": (unit_of(process, outputs=()), {"batch_size": 4})}
    with Running(graph_of(nodes, ["input -> sink"])) as flow:
        stream = flow.session()
        for i in range(8):
            stream.send("input", i)
        stream.close_input()
        assert stream.wait(60)
        assert len(stream.errors) == 8
        gc.collect()
        assert [ref() for ref in seen if ref() is not None] == []


def test_a_result_is_read_only_where_the_unit_itself_still_has_the_array():
    zeros = np.zeros(3)

    def process(ctx):
        ctx.emit([zeros for _ in ctx.input()])

    with Running(chain(unit_of(process))) as flow:
        found = flow.infer(1)
        assert not found.data.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            found.data += 1
        assert flow.infer(1).data.tolist() == [0, 0, 0]


def test_a_result_is_read_only_where_the_reader_of_another_has_the_same_array():
    def process(ctx):
        array = np.zeros(3)
        ctx.emit([array for _ in ctx.input()])

    with Running(chain((unit_of(process), {"batch_size": 2, "threads": 1})), is_inline=True) as f:
        stream = f.session()
        entrance = f.scheduler.entrance
        entrance.send(stream._session, "input", [Buffer(1), Buffer(2)])
        first, second = stream.recv(), stream.recv()
        assert first.data is second.data
        assert not first.data.flags.writeable


@pytest.mark.parametrize("how", ["twice on one", "on both", "again later"])
def test_a_buffer_that_a_unit_gives_more_than_once_is_an_item_each_time(how):
    kept = Buffer(7, {"k": 0})

    def process(ctx):
        rows = len(ctx.input())
        ctx.emit([kept] * rows, "a")
        ctx.emit([kept if how == "on both" else 0] * rows, "b")

    def mark(ctx):
        for buffer in ctx.input():
            buffer.set("k", buffer.get("k", 0) + 1)
        ctx.outputs["out"] = ctx.inputs["in"]

    nodes = {
        "input": "input",
        "u": (unit_of(process, outputs=("a", "b"), inherits_meta=False), {"batch_size": 2}),
        "a": (unit_of(mark), {"batch_size": 2}),
        "b": unit_of(mark),
        "left": "output",
        "right": "output",
    }
    edges = ["input -> u", "u:a -> a", "u:b -> b", "a -> left", "b -> right"]
    with Running(graph_of(nodes, edges), is_inline=True) as flow:
        stream = flow.session()
        if how == "twice on one":
            flow.scheduler.entrance.send(stream._session, "input", [Buffer(1), Buffer(2)])
        else:
            stream.send("input", 1)
            stream.send("input", 2)
        stream.close_input()
        found = [stream.recv("left").get("k") for _ in range(2)]
        right = [stream.recv("right").get("k") for _ in range(2)]
    assert found == [1, 1]
    assert right == [1, 1]
    assert kept.meta == {"k": 0}
