"""Sources whose buffers are sessions of their own."""

import threading

import pytest

from modelflow.errors import FlowFailed
from modelflow.stream_io import StreamIO
from modelflow.unit.kind import Kind
from modelflow.unit.unit import FlowUnit
from tests.runtime.graphs import Running, graph_of, spec_of


def source(values, **more):
    """A source of ``values``, one a call; a pair is a value and what its session is given."""

    class Source(FlowUnit):
        def process(self, ctx):
            index = ctx.state.setdefault("index", 0)
            ctx.state["index"] += 1
            if isinstance(values[index], tuple):
                value, given = values[index]
                ctx.open_session(value, **given)
            else:
                ctx.emit([values[index]])
            if index + 1 == len(values):
                ctx.finish()

    return spec_of(Source, name="source", inputs=(), is_session_opened=True, **more)


def unit(function, **more):
    class Unit(FlowUnit):
        def process(self, ctx):
            function(ctx)

    return spec_of(Unit, name=function.__name__, **more)


def sink(function, **more):
    return unit(function, outputs=(), **more)


def test_each_buffer_is_a_session_of_its_own_and_overtakes_those_that_are_slow():
    order, gate = [], threading.Event()

    def slow(ctx):
        (row,) = ctx.input()
        if row.data == 0:
            assert gate.wait(30)
        ctx.session["value"] = row.data
        ctx.emit([row])

    def keep(ctx):
        order.append((ctx.input()[0].data, ctx.session["value"]))
        if len(order) == 3:
            gate.set()

    graph = graph_of(
        {
            "source": source(range(4)),
            "slow": (unit(slow, is_per_stream=True), {"threads": 2, "batch_size": 1}),
            "keep": (sink(keep, is_per_stream=True), {"threads": 1, "batch_size": 1}),
        },
        ["source -> slow", "slow -> keep"],
    )
    with Running(graph) as flow:
        assert flow.scheduler.wait(timeout=30)
    assert [value for value, _ in order] == [1, 2, 3, 0]
    assert all(value == kept for value, kept in order)


def test_wait_returns_when_every_session_is_over_and_knows_their_errors():
    done = []

    def fail(ctx):
        (row,) = ctx.input()
        if row.data % 2:
            message = f"odd: {row.data}"
            raise ValueError(message)
        done.append(row.data)

    graph = graph_of(
        {"source": source(range(10)), "fail": (sink(fail), {"threads": 3, "batch_size": 1})},
        ["source -> fail"],
    )
    with Running(graph) as flow:
        assert flow.scheduler.wait(timeout=30)
        session = flow.scheduler.sources["source"]
        assert sorted(done) == [0, 2, 4, 6, 8]
        assert session.progress.error_count == 5
        assert sorted(str(error)[-1] for error in session.progress.errors) == list("13579")


def test_what_nobody_waits_for_any_more_is_not_worked_on():
    seen = []

    def keep(ctx):
        seen.extend(row.data for row in ctx.input())

    values = [("late", {"deadline": 0.0}), ("in time", {"deadline": 3600.0})]
    graph = graph_of({"source": source(values), "keep": sink(keep)}, ["source -> keep"])
    with Running(graph) as flow:
        assert flow.scheduler.wait(timeout=30)
        (error,) = flow.scheduler.sources["source"].progress.errors
    assert seen == ["in time"]
    assert "DeadlineExceeded" in str(error)


@pytest.mark.parametrize("bound", [1, 4, 1024])
def test_results_are_received_from_the_sources_session(bound):
    def three(ctx):
        (row,) = ctx.input()
        ctx.emit([row.data + place for place in "abc"])

    graph = graph_of(
        {
            "source": source([str(n) for n in range(40)]),
            "three": (unit(three, kind=Kind.STREAM), {"threads": 2}),
            "output": "output",
        },
        ["source -> three", "three -> output"],
    )
    with Running(graph, results_bound=bound) as flow:
        session = StreamIO(flow.scheduler, flow.scheduler.sources["source"])
        found = [session.recv(timeout=30).data for _ in range(120)]
        assert flow.scheduler.wait(timeout=30)
    assert sorted(found) == sorted(f"{n}{place}" for n in range(40) for place in "abc")
    for n in range(40):
        assert [text for text in found if text[:-1] == str(n)] == [f"{n}{p}" for p in "abc"]


def test_the_end_of_the_results_comes_when_the_source_and_its_sessions_are_over():
    gate = threading.Event()

    def slow(ctx):
        assert gate.wait(30)
        ctx.emit(ctx.input())

    graph = graph_of(
        {"source": source([1, 2, 3]), "slow": unit(slow), "output": "output"},
        ["source -> slow", "slow -> output"],
    )
    with Running(graph) as flow:
        session = StreamIO(flow.scheduler, flow.scheduler.sources["source"])
        with pytest.raises(TimeoutError):  # the source is over, its sessions are not
            session.recv(timeout=0.2)
        gate.set()
        assert sorted(buffer.data for buffer in session) == [1, 2, 3]


def test_a_stop_drops_the_sessions_that_are_open():
    begun, gate = threading.Event(), threading.Event()

    def wait(ctx):
        begun.set()
        assert gate.wait(30)

    graph = graph_of(
        {"source": source(range(50)), "wait": (sink(wait), {"threads": 1, "batch_size": 1})},
        ["source -> wait"],
    )
    with Running(graph) as flow:
        assert begun.wait(30)
        stopping = threading.Thread(target=lambda: flow.scheduler.stop(drain=False))
        stopping.start()
        gate.set()
        stopping.join()
        assert not flow.scheduler._sessions


@pytest.mark.parametrize("is_failing", [False, True])
def test_the_end_of_a_session_is_told_once_outside_of_its_lock(is_failing):
    told, gate, flows = [], threading.Event(), []

    def ended(number):
        # Whoever is told may use the flow: nothing is locked.
        flows[0].scheduler.sources["source"].progress.wake()
        flows[0].scheduler.wait(timeout=0)
        told.append(number)
        if is_failing:
            raise OSError(number)

    def keep(ctx):
        assert gate.wait(30)

    values = [(number, {"on_end": lambda number=number: ended(number)}) for number in range(4)]
    graph = graph_of({"source": source(values), "keep": sink(keep)}, ["source -> keep"])
    with Running(graph) as flow:
        flows.append(flow)
        gate.set()
        assert flow.scheduler.wait(timeout=30)
    assert sorted(told) == [0, 1, 2, 3]


def test_the_end_of_a_cancelled_session_is_told_too():
    told, begun, go = [], threading.Event(), threading.Event()

    def slow(ctx):
        begun.set()
        assert go.wait(30)

    values = [(n, {"on_end": lambda n=n: told.append(n)}) for n in range(3)]
    nodes = {"source": source(values), "slow": (sink(slow), {"threads": 1, "batch_size": 1})}
    with Running(graph_of(nodes, ["source -> slow"])) as flow:
        assert begun.wait(30)
        stopping = threading.Thread(target=lambda: flow.scheduler.stop(drain=False))
        stopping.start()
        go.set()
        stopping.join()
    assert len(told) == len(set(told))
    session = flow.scheduler.sources["source"]
    late = []
    session.on_end(lambda: late.append(True))
    assert late == [True]  # it is over: at once


def test_sources_begin_when_every_unit_is_open_and_before_the_start_returns():
    order = []

    class Source(FlowUnit):
        def begin(self):
            order.append("begin")

        def process(self, ctx):
            ctx.finish()

    class Sink(FlowUnit):
        def open(self, config):
            order.append("open")

        def process(self, ctx):
            pass

    nodes = {
        "source": spec_of(Source, name="source", inputs=()),
        "sink": (spec_of(Sink, name="sink", outputs=()), {"threads": 2}),
    }
    with Running(graph_of(nodes, ["source -> sink"])):
        assert order == ["open", "open", "begin"]


def test_a_source_that_cannot_begin_ends_the_start():
    class Source(FlowUnit):
        def begin(self):
            message = "somebody was faster"
            raise OSError(message)

        def process(self, ctx):
            ctx.hold()

    def keep(ctx):
        pass

    nodes = {"source": spec_of(Source, name="source", inputs=()), "keep": sink(keep)}
    with (
        pytest.raises(FlowFailed) as raised,
        Running(graph_of(nodes, ["source -> keep"])),
    ):
        pass
    assert "node 'source'" in str(raised.value.exceptions[0])
    assert "somebody was faster" in str(raised.value.exceptions[0])
