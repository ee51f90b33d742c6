"""Tests that nodes in one stage give the same results as nodes in separate stages."""

import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowFailed, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.entry.request_group import SessionEntry
from modelflow.runtime.kinds.chain import ChainCall
from modelflow.runtime.kinds.normal import NormalCall
from modelflow.runtime.session.segment import Stream
from modelflow.runtime.stats import WorkerStats
from modelflow.unit.kind import Normal
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.fake_session import FakeSession
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of

ONE = {"threads": 1, "batch_size": 4, "fuse": "a"}


def fused(*specs):
    return chain(*((spec, ONE) for spec in specs))


def test_each_unit_is_called_with_what_the_one_before_gave_on_one_thread():
    threads, sizes = set(), []

    class Seen(FlowUnit):
        is_any_thread = False

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
        buffer = stream.recv(errors="return")
    assert called == []
    assert buffer.error.node == "n1"
    assert "its deadline passed before the unit was called" in str(buffer.error)


def test_what_is_cancelled_in_one_unit_is_given_to_none_behind_it():
    seen = []

    def cancel(ctx):
        for row in ctx.input():
            if row.data == "gone":
                flows[0].scheduler.cancel(sessions["gone"])
        ctx.emit(ctx.input())

    def note(ctx):
        seen.extend(row.data for row in ctx.input())
        ctx.emit(ctx.input())

    settings = {"threads": 1, "batch_size": 2, "fuse": "a"}
    graph = chain((unit_of(cancel), settings), (unit_of(note), settings))
    flows, sessions = [], {}
    with Running(graph) as flow:
        flows.append(flow)
        streams = {name: flow.session() for name in ("gone", "stays")}
        sessions.update({name: stream._session for name, stream in streams.items()})
        entries = [
            SessionEntry(sessions[name], {"input": [Buffer(name)]}, None) for name in streams
        ]
        assert flow.scheduler.submitter.enter_many(entries) == (2, None)
        assert streams["stays"].recv("output").data == "stays"
        with pytest.raises(Cancelled):
            streams["gone"].recv("output")
    assert seen == ["stays"]


def test_units_that_need_their_stream_are_called_for_one_at_a_time():
    names = []

    class Named(FlowUnit):
        def process(self, ctx):
            names.append(ctx.session["name"])
            ctx.emit([buffer.data for buffer in ctx.input()])

    with Running(fused(spec_of(), spec_of(Named, kind=Normal(is_per_stream=True)))) as flow:
        streams = [flow.session() for _ in range(3)]
        for number, stream in enumerate(streams):
            stream.context["name"] = number
            stream.send("input", number)
        assert [stream.recv(timeout=60).data for stream in streams] == [0, 1, 2]
    assert sorted(names) == [0, 1, 2]


def call_of(process, node, **more):
    """Returns the call object for a unit of a node, as made by `Stage.calls_of`."""
    spec = unit_of(process, name=node)
    plan = UnitPlan(node, spec, inputs=("in",), consumers=(1,), **more)
    return NormalCall(spec.devices["cpu"](), plan)


def refusing(*values, clock=None, seconds=0.0):
    """Returns a ``process`` that advances the clock, and forwards all but some values."""

    def process(ctx):
        if clock is not None:
            clock.advance(seconds)
        ctx.emit([ValueError(b.data) if b.data in values else b.data for b in ctx.input()])

    return process


def chained(*calls, clock):
    stats = [WorkerStats() for _ in calls]
    return ChainCall(calls, stats, clock), stats


def test_a_chain_that_was_not_called_has_failed_nothing_and_begins_with_its_first_unit():
    calls = [call_of(refusing(), node) for node in ("a", "b")]
    here, _ = chained(*calls, clock=FakeClock())
    assert (here.plan, here.failed) == (calls[0].plan, 0)
    assert (here.has_errors, here.has_deadlines) == (False, False)


def test_rows_that_fail_are_counted_in_their_unit_and_together():
    clock = FakeClock()
    here, stats = chained(
        call_of(refusing(1, 2, clock=clock, seconds=2.0), "a"),
        call_of(refusing(3, clock=clock, seconds=3.0), "b"),
        clock=clock,
    )
    (column,) = here.process([[Buffer(value) for value in range(5)]], False, lambda row: None)
    assert told([column[0], column[4]]) == [0, 4]
    assert [b.error.node for b in column[1:4]] == ["a", "a", "b"]
    assert (here.failed, here.has_errors, here.plan.node) == (3, True, "b")
    assert [(s.done, s.errors) for s in stats] == [((5, 2.0), 2), ((5, 3.0), 1)]
    here.process([[Buffer(0)]], False, lambda row: None)
    assert (here.failed, here.has_errors) == (0, False)


def test_an_error_that_comes_in_passes_every_unit():
    called = []
    here, _ = chained(
        *(call_of(lambda ctx: called.append(1), node) for node in "ab"), clock=FakeClock()
    )
    bad = Buffer.from_error(FlowUnitError("before", node="n"))
    ((found,),) = here.process([[bad]], True, lambda row: None)
    assert (found, called, here.failed, here.has_errors) == (bad, [], 0, True)


def test_a_unit_of_a_chain_is_given_the_outputs_that_it_asks_for():
    first = spec_of(
        lambda: type("Two", (FlowUnit,), {"process": _gives_two})(), outputs=("low", "high")
    )
    plan = UnitPlan("a", first, inputs=("in",), consumers=(1, 1))
    calls = [
        NormalCall(first.devices["cpu"](), plan),
        call_of(refusing(), "b", sources=(1,)),
    ]
    here, _ = chained(*calls, clock=FakeClock())
    (column,) = here.process([[Buffer(1)]], False, lambda row: None)
    assert told(column) == [10]


def _gives_two(_, ctx):
    ctx.emit([b.data for b in ctx.input()], "low")
    ctx.emit([b.data * 10 for b in ctx.input()], "high")


def test_a_row_that_is_late_in_the_middle_is_an_error_of_its_session_and_the_others_stay_due():
    clock = FakeClock()
    here, _ = chained(
        call_of(refusing(clock=clock, seconds=5.0), "a"), call_of(refusing(), "b"), clock=clock
    )
    here.has_deadlines = True
    rows = [Buffer(value) for value in range(3)]
    rows[0]._deadline, rows[2]._deadline = clock.now() + 4.0, clock.now() + 6.0
    sessions = [Stream(FakeSession(name)) for name in "xyz"]
    late, free, due = here.process([rows], False, sessions.__getitem__)[0]
    assert (late.error.node, late.error.session, here.has_errors) == ("b", "x", True)
    assert told([free, due]) == [1, 2]
    assert [b._deadline for b in (free, due)] == [None, clock.now() + 1.0]


def test_a_row_that_is_late_at_the_first_unit_is_given_to_none():
    clock, called = FakeClock(), []

    def noted(ctx):
        called.extend(buffer.data for buffer in ctx.input())
        ctx.emit([buffer.data for buffer in ctx.input()])

    here, _ = chained(*(call_of(noted, node) for node in "ab"), clock=clock)
    here.has_deadlines = True
    rows = [Buffer(value) for value in range(2)]
    rows[0]._deadline = clock.now() - 1.0
    late, good = here.process([rows], False, lambda row: Stream(FakeSession()))[0]
    assert (late.error.node, good.data, called) == ("a", 1, [1, 1])


def test_a_row_that_is_late_in_front_of_a_chain_is_given_to_none_of_its_units():
    called = []

    def noted(value):
        called.append(value)
        return value

    with Running(fused(per_item(noted), per_item(noted)), is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 1, deadline=-1.0)
        assert stream.recv(errors="return").error.node == "n0"
        stream.send("input", 2)
        assert stream.recv().data == 2
    assert called == [2, 2]
