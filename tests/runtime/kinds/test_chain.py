"""Nodes that run as one stage mean what they mean apart."""

import threading

import pytest

from modelflow.errors import FlowFailed, FlowUnitError
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told

ONE = {"threads": 1, "batch_size": 4, "fuse": "a"}


def fused(*specs):
    return chain(*((spec, ONE) for spec in specs))


def test_each_unit_is_called_with_what_the_one_before_gave_on_one_thread():
    threads, sizes = set(), []

    class Seen(FlowUnit):
        def process(self, ctx):
            threads.add(threading.current_thread().name)
            sizes.append(len(ctx.input()))
            ctx.emit([buffer.data + 1 for buffer in ctx.input()])

    with Running(fused(spec_of(Seen), spec_of(Seen), spec_of(Seen))) as flow:
        stream = flow.session()
        found = stream.exchange({"input": [1, 2, 3, 4]})
        names = [t.name for t in threading.enumerate() if t.name.startswith("modelflow/test/n")]
    assert told(found["output"]) == [4, 5, 6, 7]
    assert sizes == [4, 4, 4]
    assert threads == {"modelflow/test/n0/0"} == set(names)


def test_a_row_that_fails_names_its_node_and_passes_what_follows():
    called = []

    def reciprocal(value):
        return 1 / value

    def noted(value):
        called.append(value)
        return value

    with Running(fused(per_item(reciprocal), per_item(noted))) as flow:
        found = flow.session().exchange({"input": [1, 0, 2]})["output"]
        stats = flow.scheduler.statistics()
    assert [buffer.data for buffer in found] == [1, None, 0.5]
    assert (found[1].error.node, found[1].error.unit) == ("n0", "reciprocal")
    assert called == [1, 0.5]
    assert {name: node.errors for name, node in stats.items()} == {"n0": 1, "n1": 0}


def test_every_node_has_its_own_figures():
    with Running(fused(spec_of(name="one"), spec_of(name="two"))) as flow:
        flow.session().exchange({"input": [1, 2, 3]})
        stats = flow.scheduler.statistics()
    assert [(s.node, s.unit, s.batches, s.buffers, s.threads) for s in stats.values()] == [
        ("n0", "one", 1, 3, 1),
        ("n1", "two", 1, 3, 1),
    ]
    assert all(s.busy > 0 for s in stats.values())


@pytest.mark.parametrize("phase", ["open", "close"])
def test_a_unit_that_does_not_open_or_close_is_named_and_the_others_are_closed(phase):
    closed = []

    class Good(FlowUnit):
        def close(self):
            closed.append("good")

    def fail(*_):
        raise OSError("gone")

    bad = type("Bad", (Good,), {phase: fail})
    flow = Running(fused(spec_of(Good), spec_of(bad, name="bad"), spec_of(Good)))
    with pytest.raises(FlowFailed) as raised:
        flow.scheduler.start()
        flow.scheduler.stop()
    (error,) = raised.value.exceptions
    assert isinstance(error, FlowUnitError)
    assert (error.node, error.unit, error.phase) == ("n1", "bad", phase)
    assert closed == (["good"] if phase == "open" else ["good", "good"])


def test_a_hung_unit_of_a_chain_is_named():
    is_inside, may_go_on = threading.Event(), threading.Event()

    def waiting(value):
        is_inside.set()
        may_go_on.wait()
        return value

    flow = Running(fused(spec_of(), per_item(waiting)), stop_timeout=0.2)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    assert is_inside.wait(60)
    try:
        with pytest.raises(FlowFailed) as raised:
            flow.scheduler.stop(drain=False)
        (error,) = raised.value.exceptions
        assert error.node == "n1"
        assert "did not return within 0.2 s" in str(error)
    finally:
        may_go_on.set()
        for thread in threading.enumerate():
            if thread.name.startswith("modelflow/test/n0"):
                thread.join()


def test_a_sink_may_end_a_chain():
    seen = []

    class Keep(FlowUnit):
        def process(self, ctx):
            seen.extend(buffer.data for buffer in ctx.input())

    nodes = {"input": "input", "n0": (per_item(abs), ONE), "n1": (spec_of(Keep, outputs=()), ONE)}
    with Running(graph_of(nodes, ["input -> n0", "n0 -> n1"])) as flow:
        stream = flow.session()
        stream.send("input", -3)
        stream.close_input()
        assert stream.wait(60)
    assert seen == [3]


def test_a_deadline_that_passes_in_one_unit_is_seen_before_the_next():
    clock, called = FakeClock(), []

    def slow(value):
        clock.advance(10)
        return value

    def last(value):
        called.append(value)
        return value

    with Running(fused(per_item(slow), per_item(last)), clock=clock, is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 1, deadline=5.0)
        buffer = stream.recv_buffer()
    assert called == []
    assert buffer.error.node == "n1"
    assert "its deadline passed before the unit was called" in str(buffer.error)


def test_units_that_need_their_stream_are_called_for_one_at_a_time():
    names = []

    class Named(FlowUnit):
        def process(self, ctx):
            names.append(ctx.session["name"])
            ctx.emit([buffer.data for buffer in ctx.input()])

    with Running(fused(spec_of(), spec_of(Named, is_per_stream=True))) as flow:
        streams = [flow.session() for _ in range(3)]
        for number, stream in enumerate(streams):
            stream.context["name"] = number
            stream.send("input", number)
        assert [stream.recv(timeout=60).data for stream in streams] == [0, 1, 2]
    assert sorted(names) == [0, 1, 2]
