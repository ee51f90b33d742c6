import queue
import threading

import numpy as np
import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.errors import Cancelled
from modelflow.unit.kind import Count, Normal, Stream
from tests.device.conftest import plug_in, toy
from tests.device.toy import ADD_ONE
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import (
    Running,
    chain,
    graph_of,
    per_item,
    results_of,
    spec_of,
    told,
    unit_of,
)
from tests.runtime.kinds.test_expand import collapse, expand

__all__ = ["plug_in", "toy"]

inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def stream_unit(process, count=Count.ANY, **more):
    return unit_of(process, kind=Stream(count), name="stream", **more)


def emit_all(ctx):
    ctx.emit([buffer.data for buffer in ctx.input()])


def running_sum(ctx):
    for buffer in ctx.input():
        ctx.state["sum"] = ctx.state.get("sum", 0) + buffer.data
        ctx.emit([ctx.state["sum"]])


def recording(calls, **more):
    """Returns a stream unit that records its calls."""

    def note(name):
        def hook(ctx):
            calls.append(name + " cancelled" * ctx.is_cancelled)

        return hook

    def process(ctx):
        calls.append([buffer.data for buffer in ctx.input()])
        emit_all(ctx)

    hooks = {"stream_start": note("start"), "stream_end": note("end"), **more.pop("hooks", {})}
    return stream_unit(process, hooks=hooks, **more)


@inline
def test_state_is_kept_from_call_to_call_and_new_for_each_stream(options):
    graph = chain((stream_unit(running_sum), {"threads": 4, "batch_size": 2}))
    with Running(graph, **options) as flow:
        for _ in range(2):
            found = flow.session().exchange({"input": range(5)}, 30)
            assert told(found["output"]) == [0, 1, 3, 6, 10]


@inline
def test_hooks_are_called_around_the_buffers_also_of_an_empty_stream(options):
    calls = []
    graph = chain((recording(calls), {"threads": 1, "batch_size": 1}))
    assert results_of(graph, 1, 2, **options) == [1, 2]
    assert calls == ["start", [1], [2], "end"]
    calls.clear()
    assert results_of(graph, **options) == []
    assert calls == ["start", "end"]


def test_each_sub_stream_has_hooks_and_state_of_its_own():
    graph = chain(expand(), (stream_unit(running_sum), {"threads": 4}), collapse())
    assert results_of(graph, 2, 0, 3) == [[20, 41], [], [30, 61, 93]]


def test_it_may_give_any_number_also_at_the_start_and_the_end():
    graph = chain(
        stream_unit(
            lambda ctx: ctx.emit([b.data for b in ctx.input()] * 2),
            hooks={
                "stream_start": lambda ctx: ctx.emit(["first"]),
                "stream_end": lambda ctx: ctx.emit(["last"]),
            },
        ),
        per_item(str),
    )
    assert results_of(graph, 1, 2) == ["first", "1", "1", "2", "2", "last"]


def test_different_streams_run_side_by_side_and_one_stream_never():
    meet, running = threading.Barrier(2), []

    def process(ctx):
        assert len(ctx.input()) == 1
        key = ctx.session["name"]
        assert key not in running
        running.append(key)
        if ctx.input()[0].data == "meet":
            meet.wait(30)
        running.remove(key)
        emit_all(ctx)

    graph = chain((stream_unit(process), {"threads": 3, "batch_size": 1}))
    with Running(graph) as flow:
        streams = []
        for name in ("a", "b"):
            stream = flow.session()
            stream.context["name"] = name
            streams.append(stream)
        for stream in streams:
            for value in ("x", "meet", "y", "z"):
                stream.send("input", value)
            stream.close_input()
        for stream in streams:
            assert told(list(stream)) == ["x", "meet", "y", "z"]


def test_a_stream_is_not_worked_on_twice_at_once_though_workers_are_free():
    started, release, calls = threading.Event(), threading.Event(), []

    def process(ctx):
        (row,) = ctx.input()
        calls.append(row.data)
        if row.data == "slow":
            started.set()
            assert release.wait(30)
        emit_all(ctx)

    graph = chain((stream_unit(process), {"threads": 3, "batch_size": 1}))
    with Running(graph) as flow:
        stream = flow.session()
        stream.send("input", "slow")
        assert started.wait(30)
        stream.send("input", "next")
        # A free worker would have taken "next" before this row.
        assert flow.infer("other")[0].data == "other"
        assert calls == ["slow", "other"]
        release.set()
        stream.close_input()
        assert told(list(stream)) == ["slow", "next"]


# -- the count kept --------------------------------------------------------------------------------


def late(ctx):
    held = ctx.state.setdefault("held", [])
    held += [buffer.data for buffer in ctx.input()]
    while len(held) > 2:
        ctx.emit([held.pop(0)])


def same_count(process=late, **more):
    more.setdefault("hooks", {"stream_end": lambda ctx: ctx.emit(ctx.state.get("held", []))})
    return stream_unit(process, Count.SAME, **more)


def beside(spec):
    """Returns the graph input -> spec -> join:a, input -> join:b, which needs equal positions."""

    def join(ctx):
        ctx.emit([(a.data, b.data) for a, b in zip(*ctx.inputs.values(), strict=True)])

    return graph_of(
        {
            "input": "input",
            "first": per_item(lambda x: 60 // x),
            "stream": spec,
            "join": unit_of(join, inputs=("a", "b")),
            "output": "output",
        },
        [
            "input -> first",
            "first -> stream",
            "stream -> join:a",
            "input -> join:b",
            "join -> output",
        ],
    )


@inline
def test_one_that_keeps_the_count_matches_its_input_however_late(options):
    found = results_of(beside(same_count()), 1, 2, 3, 0, 5, **options)
    assert found[:3] + found[4:] == [(60, 1), (30, 2), (20, 3), (12, 5)]
    assert "division" in found[3]


def test_one_that_keeps_the_count_hands_on_the_meta():
    with Running(chain(same_count())) as flow:
        stream = flow.session()
        for i in range(4):
            stream.send("input", Buffer(i, {"index": i}))
        stream.close_input()
        assert [buffer.get("index") for buffer in stream] == [0, 1, 2, 3]


def test_one_that_gives_fewer_than_it_declares_fails_those_that_are_missing():
    found = results_of(beside(same_count(hooks={})), 1, 2, 3)
    assert found[0] == (60, 1)
    assert all("ended 2 buffers short on output 'out'" in text for text in found[1:])


def test_one_that_gives_more_than_it_declares_fails_that_call():
    spec = same_count(lambda ctx: ctx.emit([1, 2]), hooks={})
    (bad,) = results_of(chain(spec), 7)
    assert "gave 2 values on output 'out' for 1 inputs without a result" in bad


# -- errors ----------------------------------------------------------------------------------------


def refuse(value):
    def process(ctx):
        if any(buffer.data == value for buffer in ctx.input()):
            raise ValueError(f"no {value}")
        emit_all(ctx)

    return process


def test_a_failing_call_fails_its_buffers_and_the_stream_goes_on():
    graph = chain((stream_unit(refuse(2)), {"batch_size": 1}))
    assert results_of(graph, 1, 2, 3) == [1, "error: no 2", 3]


def test_buffers_in_error_pass_in_their_place():
    found = results_of(chain(per_item(lambda x: 6 // x), stream_unit(running_sum)), 1, 0, 3)
    assert (found[0], found[2]) == (6, 8)
    assert "division" in found[1]


@pytest.mark.parametrize("count", [Count.ANY, Count.SAME])
def test_a_stream_that_does_not_start_fails_all_its_buffers(count):
    def start(ctx):
        raise ValueError("does not start")

    calls = []
    spec = recording(calls, hooks={"stream_start": start}, count=count)
    assert results_of(chain(spec), 1, 2) == ["error: does not start"] * 2
    assert calls == []


def test_an_empty_stream_that_does_not_start_or_end_gives_one_error():
    def fail(ctx):
        raise ValueError("fails")

    for hook in ("stream_start", "stream_end"):
        assert results_of(chain(stream_unit(emit_all, hooks={hook: fail}))) == ["error: fails"]


def test_an_error_that_no_buffer_can_carry_is_noted_in_the_session():
    def fail(ctx):
        raise ValueError("fails at the end")

    graph = chain(stream_unit(emit_all, Count.SAME, hooks={"stream_end": fail}))
    with Running(graph) as flow:
        stream = flow.session()
        assert told(stream.exchange({"input": [1]}, 30)["output"]) == [1]
        assert [str(error.__cause__) for error in stream.errors] == ["fails at the end"]


def test_a_stream_sink_notes_its_errors_in_the_session():
    def process(ctx):
        if ctx.input()[0].data == 2:
            raise ValueError("no 2")

    spec = stream_unit(process, outputs=())
    graph = graph_of({"input": "input", "sink": (spec, {"batch_size": 1})}, ["input -> sink"])
    with Running(graph) as flow:
        stream = flow.session()
        for value in (1, 2, 3):
            stream.send("input", value)
        stream.close_input()
        assert stream.wait(30)
        assert [str(error.__cause__) for error in stream.errors] == ["no 2"]


# -- the early end ---------------------------------------------------------------------------------


def test_a_cancelled_session_s_stream_is_ended_and_told_so():
    calls, ended = [], threading.Event()

    def end(ctx):
        calls.append(("end", ctx.is_cancelled, ctx.state["sum"]))
        ended.set()

    graph = chain(stream_unit(running_sum, hooks={"stream_end": end}))
    with Running(graph) as flow:
        stream = flow.session()
        stream.send("input", 3)
        assert stream.recv(timeout=30).data == 3
        stream.cancel()
        assert ended.wait(30)
        with pytest.raises(Cancelled):
            stream.recv(timeout=30)
    assert calls == [("end", True, 3)]


@inline
def test_streams_that_are_open_when_the_flow_is_stopped_are_ended(options):
    calls = []
    graph = chain((recording(calls), {"threads": 2}))
    flow = Running(graph, **options)
    with flow:
        streams = [flow.session() for _ in range(3)]
        for stream in streams:
            stream.send("input", 1)
            stream.recv(timeout=30)
        flow.scheduler.stop(drain=False)
    assert calls.count("start") == calls.count("end cancelled") == 3


# -- events ----------------------------------------------------------------------------------------


def count_down(ctx):
    if ctx.event is None:
        (row,) = ctx.input()
        ctx.state["left"] = row.data
    else:
        ctx.emit([ctx.state["left"]])
        ctx.state["left"] -= 1
    if ctx.state["left"]:
        assert ctx.send_event()


@inline
def test_an_event_brings_a_call_without_input(options):
    assert results_of(chain(stream_unit(count_down)), 5, **options) == [5, 4, 3, 2, 1]


@inline
def test_a_stream_ends_when_its_events_have(options):
    graph = chain(expand(lambda ctx: ctx.emit([ctx.input()[0].data])), stream_unit(count_down))
    assert results_of(graph, 2, 3, **options) == [2, 1, 3, 2, 1]


@pytest.mark.parametrize("bound", [1, 10])
def test_a_reader_that_does_not_read_stops_the_events_of_its_session_alone(bound):
    made = threading.Semaphore(0)

    def endless(ctx):
        if ctx.session.get("endless"):
            ctx.emit([0])
            made.release()
            ctx.send_event()
        else:
            emit_all(ctx)

    with Running(chain((stream_unit(endless), {"threads": 1})), results_bound=bound) as flow:
        stream = flow.session()
        stream.context["endless"] = True
        stream.send("input", 1)
        stream.close_input()
        for _ in range(bound):
            assert made.acquire(timeout=30)
        for _ in range(3):
            assert flow.infer(5)[0].data == 5
        assert len(stream._results(None)) <= bound
        for _ in range(50):
            assert stream.recv(timeout=30).data == 0
        stream.cancel()


def test_a_held_stream_waits_for_an_event_from_another_thread():
    contexts = queue.SimpleQueue()

    def process(ctx):
        if ctx.event is None:
            ctx.hold()
            contexts.put(ctx)
        else:
            ctx.emit([ctx.event])

    with Running(chain(stream_unit(process))) as flow:
        stream = flow.session()
        stream.send("input", 1)
        stream.close_input()
        context = contexts.get()
        with pytest.raises(TimeoutError):
            stream.recv(timeout=0.2)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(context.send_event("late")))
        thread.start()
        thread.join()
        assert told(list(stream)) == ["late"]
        assert answers == [True]
        assert context.send_event("too late") is False


def later(ctx):
    if ctx.event is None:
        assert ctx.send_event("last", delay=20.0)
        assert ctx.send_event("first", delay=10.0)
        ctx.emit(["now"])
    else:
        ctx.emit([ctx.event])


def test_a_delayed_event_comes_when_it_is_due_and_keeps_the_stream_open():
    clock = FakeClock()
    with Running(chain((stream_unit(later), {"threads": 1})), clock=clock) as flow:
        stream = flow.session()
        stream.send("input", 1)
        stream.close_input()
        assert stream.recv().data == "now"
        for event in ("first", "last"):
            clock.until_sleeping(2)  # the worker, and the watchdog
            clock.advance(10.0)
            assert stream.recv().data == event
        assert list(stream) == []


def test_delayed_events_of_a_cancelled_session_are_dropped():
    clock = FakeClock()
    with Running(chain((stream_unit(later), {"threads": 1})), clock=clock) as flow:
        stream = flow.session()
        stream.send("input", 1)
        assert stream.recv().data == "now"
        clock.until_sleeping(2)
        stream.cancel()
        clock.advance(10.0)
        other = flow.session()  # the worker goes on
        other.send("input", 1)
        assert other.recv().data == "now"
        other.cancel()


def test_delayed_events_come_inline_too():
    def soon(ctx):
        if ctx.event is None:
            assert ctx.send_event("soon", delay=0.001)
        else:
            ctx.emit([ctx.event])

    assert results_of(chain(stream_unit(soon)), 1, is_inline=True) == ["soon"]


def test_events_are_for_stream_units():
    graph = chain(unit_of(lambda ctx: ctx.send_event()))
    (text,) = results_of(graph, 1)
    assert "send_event is for flow units of the kind 'stream'" in text


# -- contexts --------------------------------------------------------------------------------------


def test_stream_meta_reaches_the_units_behind_and_sub_streams():
    def start(ctx):
        ctx.stream_meta["rate"] = 25

    def told_meta(ctx):
        ctx.emit([ctx.stream_meta.get("rate")])

    graph = chain(
        stream_unit(emit_all, hooks={"stream_start": start}),
        expand(lambda ctx: ctx.emit([1])),
        unit_of(
            lambda ctx: ctx.emit([ctx.stream_meta.get("rate")]), kind=Normal(is_per_stream=True)
        ),
        collapse(told_meta),
    )
    assert results_of(graph, 1) == [25]


def test_a_unit_per_stream_gets_no_mixed_batches():
    def process(ctx):
        ctx.emit([ctx.session["name"]] * len(ctx.input()))

    spec = unit_of(process, kind=Normal(is_per_stream=True))
    with Running(chain((spec, {"batch_size": 16})), is_inline=True) as flow:
        streams = []
        for name in ("a", "b"):
            stream = flow.session()
            stream.context["name"] = name
            streams.append(stream)
        for stream, values in zip(streams, ([1, 2], [3]), strict=True):
            for value in values:
                flow.scheduler.submitter.send(stream._session, "input", [Buffer(value)])
        for stream in streams:
            stream.close_input()
        assert [told(list(stream)) for stream in streams] == [["a", "a"], ["b"]]


def test_a_thousand_idle_streams_need_no_thread():
    graph = chain(stream_unit(running_sum), spec_of())
    with Running(graph) as flow:
        before = threading.active_count()
        streams = [flow.session() for _ in range(1000)]
        for number, stream in enumerate(streams):
            stream.send("input", number)
        for _ in range(2):
            for number, stream in enumerate(streams):
                assert stream.recv(timeout=30).data % max(1, number) == 0
                stream.send("input", number)
        assert threading.active_count() == before
        for stream in streams:
            stream.cancel()


# -- a worker step by step ------------------------------------------------------------------------


class Steps:
    """An inline flow of one stream unit, and its worker."""

    def __init__(self, process, **more):
        options = {name: more.pop(name) for name in ("results_bound",) if name in more}
        self.clock = FakeClock()
        self._running = Running(
            chain(stream_unit(process, **more)), is_inline=True, clock=self.clock, **options
        )

    def __enter__(self):
        self.flow = self._running.__enter__()
        self.worker, *_ = self.flow.scheduler._workers
        return self

    def __exit__(self, *how):
        self._running.__exit__(*how)


@pytest.mark.parametrize("is_expanded", [False, True])
def test_nothing_is_left_of_a_session_that_has_ended(is_expanded):
    unit = stream_unit(emit_all)
    graph = chain(expand(), unit, collapse()) if is_expanded else chain(unit)
    with Running(graph, is_inline=True) as flow:
        for _ in range(2):
            assert len(flow.session().exchange({"input": [1, 2]}, 30)["output"]) == 2
        assert flow.scheduler.count_held() == {}


def test_a_stream_unit_behind_a_device_gets_what_lies_on_the_host(toy):
    seen = []

    def process(ctx):
        seen.extend(type(buffer.data) for buffer in ctx.input())
        emit_all(ctx)

    text = (
        "digraph { i [type=input] o [type=output] a [flowunit=add_one device=toy] "
        "s [flowunit=stream] i -> a -> s -> o }"
    )
    with modelflow.Flow(text, units=[ADD_ONE, stream_unit(process)], threads=0) as flow:
        (found,) = flow.infer(np.zeros(1))
        assert found.data.tolist() == [1]
    assert seen == [np.ndarray]


def test_a_call_of_a_stream_unit_is_named_and_its_time_is_counted():
    phases = []

    def process(ctx):
        phases.append(steps.worker.phase)
        steps.clock.advance(2.0)
        emit_all(ctx)

    with Steps(process) as steps:
        steps.flow.session().send("input", 1)
        stats = steps.worker._stats
        assert (phases, stats.done) == (["process"], (1, 2.0))
        assert steps.worker.phase == "idle"


def test_an_event_that_is_sent_at_the_start_of_a_stream_comes():
    events = []
    hooks = {"stream_start": lambda ctx: ctx.send_event("start")}
    with Steps(lambda ctx: events.append(ctx.event), hooks=hooks) as steps:
        steps.flow.session().send("input", 1)
    assert events == [None, "start"]


@pytest.mark.parametrize(
    ("count", "is_source"),
    [(Count.ANY, False), (Count.SAME, True), (Count.ASSUMED, True)],
)
@pytest.mark.parametrize("is_sink", [False, True])
def test_a_unit_that_keeps_the_count_gives_into_the_stream_that_comes_in(count, is_source, is_sink):
    outputs = () if is_sink else ("out",)
    nodes = {"input": "input", "s": stream_unit(emit_all, count, outputs=outputs)}
    edges = ["input -> s"]
    if not is_sink:
        nodes["output"] = "output"
        edges.append("s -> output")
    flow = Running(graph_of(nodes, edges), is_inline=True)
    worker, *_ = flow.scheduler._workers
    with flow:
        stream = flow.scheduler.create_session().stream
        (numbering,) = worker._open(stream).outputs
    assert (numbering.stream is stream) == (is_source and not is_sink)
    assert numbering.is_same_count == (count is Count.SAME and not is_sink)


def test_a_lane_waits_for_its_reader_and_not_behind_the_end_of_its_session(monkeypatch):
    asked = []

    def process(ctx):
        ctx.emit([1])
        ctx.send_event("again")

    with Steps(process, results_bound=1) as steps:
        stream = steps.flow.session()
        reader = stream._session.reader
        monkeypatch.setattr(type(reader), "on_read", lambda self, *given: asked.append(given))
        stream.send("input", 1)
        ((bound, unpark, is_over),) = asked
        assert (bound, is_over()) == (1, False)
        assert not steps.worker.try_step()
        unpark()
        assert steps.worker.try_step()
        stream.cancel()
        assert is_over()
        assert len(asked) == 2  # no call for the cancelled session
