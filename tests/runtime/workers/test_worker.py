"""Tests that an error in a call affects only its buffers, and that deadlines follow rows."""

import asyncio
import gc
import sysconfig
import threading
import weakref

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, EndFlow, FlowFailed, FlowUnitError, StreamClosed
from modelflow.runtime.session.segment import Batch, Segment
from modelflow.unit.kind import Condition, Count, Loop, Normal, Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of
from tests.runtime.kinds.test_expand import collapse, expand
from tests.runtime.workers.test_trace_buffer import Recorder


class Panic(BaseException):
    """An exception of the kind that Rust extensions raise."""


ENDINGS = [SystemExit, GeneratorExit, asyncio.CancelledError, KeyboardInterrupt, Panic]
inline = pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])


def raising(error):
    def process(ctx):
        for buffer in ctx.input():
            if buffer.data == "bad":
                raise error("of the item's own")
            ctx.emit([buffer.data], next(iter(ctx.outputs)))

    return process


def told_of(graph, values):
    with Running(graph) as flow:
        stream = flow.session()
        for value in values:
            stream.send("input", value)
        stream.close_input()
        found = []
        for _ in values:
            buffer = stream.recv(errors="return")
            found.append(buffer.data if buffer.error is None else type(buffer.error.__cause__))
        assert flow.infer("still there").data == "still there"
    return found


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("batch_size", [1, 4])
def test_whatever_a_unit_raises_fails_its_own_item_alone(error, batch_size):
    settings = {"batch_size": batch_size, "threads": 1}
    graph = chain((unit_of(raising(error)), settings))
    assert told_of(graph, [1, "bad", 3]) == [1, error, 3]


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("kind", [Condition(), Loop()])
def test_whatever_a_row_by_row_unit_raises_fails_its_own_item_alone(error, kind):
    spec = unit_of(raising(error), outputs=("out", "other"), kind=kind)
    nodes = {"input": "input", "u": spec, "same": spec_of(), "output": "output"}
    edges = ["input -> u", "u:out -> output", "u:other -> same"]
    edges.append("same -> u" if isinstance(kind, Loop) else "same -> output")
    assert told_of(graph_of(nodes, edges), [1, "bad", 3]) == [1, error, 3]


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("is_expand", [False, True])
def test_whatever_an_expand_or_a_collapse_raises_fails_its_own_item_alone(error, is_expand):
    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    specs = (raising(error), same) if is_expand else (same, raising(error))
    graph = chain(expand(specs[0]), collapse(specs[1]))
    assert told_of(graph, [1, "bad", 3]) == [1, error, 3]


@pytest.mark.parametrize("error", ENDINGS)
@pytest.mark.parametrize("hook", ["process", "stream_start", "stream_end"])
def test_whatever_a_stream_unit_raises_fails_its_own_session_alone(error, hook):
    def process(ctx):
        if hook == "process":
            raising(error)(ctx)
        elif hook == "stream_start":
            ctx.emit([buffer.data for buffer in ctx.input()])

    def fail(ctx):
        if ctx.session.get("is_bad"):
            raise error("of the stream's own")

    hooks = {} if hook == "process" else {hook: fail}
    with Running(chain(unit_of(process, kind=Stream(), hooks=hooks))) as flow:
        bad, good = flow.session(), flow.session()
        bad.context["is_bad"] = True
        for stream, value in ((bad, "bad"), (good, "good")):
            stream.send("input", value)
            stream.close_input()
        assert type(bad.recv(timeout=60, errors="return").error.__cause__) is error
        assert told(good._results(None).get_all(FakeClock(), 60)) == (
            [] if hook == "stream_end" else ["good"]
        )


@pytest.mark.parametrize("error", ENDINGS)
def test_whatever_a_source_raises_is_its_last_buffer(error):
    def process(ctx):
        if ctx.state.setdefault("is_first", True):
            ctx.state["is_first"] = False
            ctx.emit([1])
            return
        raise error("of the source's own")

    nodes = {"source": unit_of(process, inputs=()), "output": "output"}
    with Running(graph_of(nodes, ["source -> output"])) as flow:
        assert flow.scheduler.wait(60)
        results = flow.scheduler.sources["source"].results["output"]
        first, last = results.get_all(FakeClock(), 60)
    assert first.data == 1
    assert type(last.error.__cause__) is error


@inline
def test_a_unit_that_ends_the_flow_is_named_by_its_stop(options):
    def process(ctx):
        raise EndFlow("enough")

    flow = Running(chain(unit_of(process)), **options)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    with pytest.raises(StreamClosed, match="has failed"):
        stream.recv()
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.stop()
    (error,) = caught.value.exceptions
    assert "node 'n0'" in str(error)
    assert isinstance(error.__cause__, EndFlow)


@pytest.mark.parametrize("kind", [Normal(), Stream()])
def test_a_ctrl_c_in_an_inline_flow_is_the_users_and_the_flow_stops_after_it(kind):
    def process(ctx):
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        Running(chain(unit_of(process, kind=kind)), is_inline=True) as flow,
    ):
        flow.infer(1)
    assert flow.scheduler.is_stopped


# -- deadlines ------------------------------------------------------------------------------------


class Late:
    """A graph ``before -> slow -> last``: the deadline passes in ``slow``."""

    def __init__(self, *middle, before=None):
        self.clock = FakeClock()
        self.seen = []

        def slow(value):
            self.clock.advance(10.0)
            return value

        def last(value):
            self.seen.append(value)
            return value

        first = [before] if before is not None else []
        self.graph = chain(
            *first,
            (per_item(slow), {"batch_size": 1}),
            *middle,
            (per_item(last), {"batch_size": 1}),
        )

    def answer(self, deadline):
        with Running(self.graph, clock=self.clock, is_inline=True) as flow:
            stream = flow.session()
            stream.send("input", 1, deadline=deadline)
            stream.close_input()
            return [buffer.error or buffer.data for buffer in _all(stream)]


def _all(stream):
    return stream._results(None).get_all(FakeClock(), 60)


def same(ctx):
    ctx.emit([buffer.data for buffer in ctx.input()])


KINDS = {
    "normal": [spec_of()],
    "new buffers": [per_item(lambda x: x)],
    "expand": [expand(same)],
    "expand and collapse": [expand(same), collapse(same)],
    "stream that keeps the count": [unit_of(same, kind=Stream(Count.SAME))],
    "stream of an assumed count": [unit_of(same, kind=Stream(Count.ASSUMED))],
    "two of them": [spec_of(), unit_of(same, kind=Stream(Count.SAME))],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_before", [False, True])
def test_a_deadline_passes_through_every_kind(kind, is_before):
    specs = KINDS[kind]
    late = Late(before=specs[0]) if is_before and len(specs) == 1 else Late(*specs)
    (error,) = late.answer(5.0)
    assert isinstance(error.__cause__, DeadlineExceeded)
    assert late.seen == []
    assert (Late(*specs)).answer(60.0) == [1]


@pytest.mark.parametrize("kind", [Condition(), Loop()])
def test_a_deadline_passes_through_what_parts_rows(kind):
    clock, seen = FakeClock(), []

    def slow(value):
        clock.advance(10.0)
        return value

    def part(ctx):
        for buffer in ctx.input():
            ctx.emit([buffer.data], "out")

    spec = unit_of(part, outputs=("out", "other"), kind=kind)
    nodes = {
        "input": "input",
        "u": spec,
        "same": spec_of(),
        "slow": (per_item(slow), {"batch_size": 1}),
        "last": per_item(seen.append),
        "output": "output",
    }
    edges = ["input -> u", "u:out -> slow", "slow -> last", "u:other -> same", "last -> output"]
    edges.append("same -> u" if isinstance(kind, Loop) else "same -> last")
    with Running(graph_of(nodes, edges), clock=clock, is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 1, deadline=5.0)
        with pytest.raises(DeadlineExceeded):
            stream.recv()
    assert seen == []


def test_of_several_inputs_the_earliest_deadline_counts():
    def add(ctx):
        ctx.emit([1 for _ in ctx.inputs["a"]])

    clock = FakeClock()
    nodes = {
        "x": "input",
        "y": "input",
        "add": unit_of(add, inputs=("a", "b"), name="add"),
        "output": "output",
    }
    graph = graph_of(nodes, ["x -> add:a", "y -> add:b", "add -> output"])
    with Running(graph, clock=clock, is_inline=True) as flow:
        stream = flow.session()
        stream.send("x", 1, deadline=60.0)
        clock.advance(10.0)
        stream.send("y", 1, deadline=-5.0)
        with pytest.raises(DeadlineExceeded, match="node 'add'"):
            stream.recv()


def test_nothing_is_kept_of_rows_with_deadlines():
    graph = graph_of(
        {"input": "input", "u": spec_of(), "a": "output", "b": "output"},
        ["input -> u", "u -> a", "u -> b"],
    )
    with Running(graph, results_bound=8) as flow:
        stream = flow.session()
        for i in range(300):
            stream.send("input", i, deadline=60.0)
            assert stream.recv("a").data == stream.recv("b").data == i
        held = flow.scheduler.count_held()
        assert all(count <= 1 for count in held.values())
        session = stream._session
        sizes = [len(v) for s in (session, session.progress) for v in _containers(s)]
        assert max(sizes) <= 2


def _containers(thing):
    names = getattr(type(thing), "__slots__", ()) or vars(thing)
    values = [getattr(thing, name) for name in names if name != "__weakref__"]
    return [value for value in values if isinstance(value, dict | list | set | tuple)]


def test_the_error_of_a_deadline_keeps_the_meta_of_its_item():
    with Running(chain(spec_of()), is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", Buffer(1, {"path": "x.jpg"}), deadline=-1.0)
        bad = stream.recv(errors="return")
    assert isinstance(bad.error, FlowUnitError)
    assert bad.get("path") == "x.jpg"


def test_many_sends_with_deadlines_from_many_threads_harm_nobody():
    with Running(chain((spec_of(), {"threads": 2})), results_bound=10_000) as flow:
        stream = flow.session()

        def send():
            for i in range(300):
                stream.send("input", i, deadline=60.0)

        threads = [threading.Thread(target=send, name=f"modelflow/test/{i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.close_input()
        assert len(list(stream)) == 1200


def test_a_worker_says_whether_its_unit_is_open_and_closes_it_once():
    calls = []
    hooks = {name: lambda *_, name=name: calls.append(name) for name in ("open", "close")}
    worker, *_ = Running(chain(unit_of(same, hooks=hooks))).scheduler._workers
    assert worker.try_open() is True
    worker.try_close()
    worker.try_close()
    assert calls == ["open", "close"]


def test_a_worker_whose_unit_does_not_open_says_so():
    def fail(_):
        raise OSError("no model")

    worker, *_ = Running(chain(unit_of(same, hooks={"open": fail}))).scheduler._workers
    assert worker.try_open() is False


@inline
@pytest.mark.parametrize("hook", ["open", "close"])
def test_a_unit_that_does_not_open_or_close_is_named_with_what_it_did(hook, options):
    def fail(*_):
        raise OSError("no model")

    flow = Running(chain((unit_of(same, hooks={hook: fail}), {"threads": 1})), **options)
    with pytest.raises(FlowFailed) as caught, flow:
        pass
    (error,) = caught.value.exceptions
    assert (error.node, error.unit, error.phase) == ("n0", "forward", hook)
    assert isinstance(error.__cause__, OSError)


@inline
def test_a_bug_of_ours_ends_the_flow_and_is_named_with_its_node(options, monkeypatch):
    flow = Running(chain((spec_of(), {"threads": 1})), **options)
    (worker,) = flow.scheduler._workers

    def fail(*_):
        raise AssertionError("internal error")

    with pytest.raises(FlowFailed) as caught, flow:
        monkeypatch.setattr(worker.stage.outbox, "emit", fail)
        stream = flow.session()
        stream.send("input", 1)
        with pytest.raises(StreamClosed):
            stream.recv(timeout=60)
        assert worker.phase in ("idle", "close")
    (error,) = caught.value.exceptions
    assert (error.node, error.phase) == ("n0", "process")


def test_a_worker_runs_on_the_processors_that_its_node_names():
    import os

    (first, *_) = sorted(os.sched_getaffinity(0))
    seen = []

    def process(ctx):
        seen.append(os.sched_getaffinity(0))
        same(ctx)

    before = os.sched_getaffinity(0)
    with Running(chain((unit_of(process), {"threads": 1, "cpu_affinity": str(first)}))) as flow:
        flow.infer(1)
    assert seen == [{first}]
    assert os.sched_getaffinity(0) == before


def test_an_inline_worker_whose_step_fails_has_done_nothing(monkeypatch):
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(FlowFailed) as caught, flow:
        worker, *_ = flow.scheduler._workers

        def fail():
            raise AssertionError("internal error")

        monkeypatch.setattr(worker, "step", fail)
        has_done = worker.try_step()
        monkeypatch.undo()
    assert not has_done
    (error,) = caught.value.exceptions
    assert (error.node, error.phase) == ("n0", "process")


def test_each_row_of_a_batch_has_its_own_deadline_and_what_comes_in_time_passes():
    clock = FakeClock()
    with Running(chain(spec_of()), clock=clock, is_inline=True) as flow:
        sessions = [flow.scheduler.create_session() for _ in range(2)]
        segments = []
        for session, dues in zip(sessions, ((None, -1.0, 0.0), (-1.0, 1.0)), strict=True):
            session.has_deadlines = True
            column = [Buffer(due) for due in dues]
            for buffer in column:
                buffer._deadline = None if buffer.data is None else clock.now() + buffer.data
            segments.append(Segment(session.stream, range(len(dues)), [column], False, False))
        worker, *_ = flow.scheduler._workers
        worker.run(Batch.of(segments, 1))
        found = [[session.results["output"].get_nowait() for _ in range(2)] for session in sessions]
        assert sessions[0].results["output"].get_nowait().data == 0.0
    ((_, late), (other, _)) = found
    assert [b.error is not None for b in (*found[0], *found[1])] == [False, True, True, False]
    assert [(b.error.node, b.error.unit, b.error.session) for b in (late, other)] == [
        ("n0", "forward", "0"),
        ("n0", "forward", "1"),
    ]


def test_rows_are_counted_out_behind_the_last_node_that_each_passes_once():
    with Running(chain(spec_of(), expand(same), max_in_flight=1), is_inline=True) as flow:
        stream = flow.session()
        for value in range(3):
            stream.send("input", value, timeout=0)
            assert flow.scheduler._wiring._in_flight.rows == 0


def test_rows_of_an_origin_that_is_counted_elsewhere_are_not_counted_here():
    with Running(chain(spec_of(), expand(same), max_in_flight=8), is_inline=True) as flow:
        for worker in flow.scheduler._workers:
            worker._exits = {"elsewhere": 0}
        stream = flow.session()
        stream.send("input", 1)
        assert stream.recv().data == 1
        assert flow.scheduler._wiring._in_flight.rows == 1
        stream.cancel()


class Thing:
    """Data with a weak reference, which shows when the data is freed."""


@pytest.mark.parametrize("fuse", ["off", "a"])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_worker_that_waits_keeps_no_rows(fuse, is_recorded):
    clock = FakeClock()
    settings = {"threads": 1} if fuse == "off" else {"threads": 1, "fuse": fuse}
    specs = [(unit_of(forward, hooks={"open": lambda _: None}), settings) for _ in range(2)]
    with Running(chain(*specs), clock=clock) as flow, flow.session() as stream:
        flow.scheduler.record(Recorder() if is_recorded else None)
        thing = Thing()
        known = weakref.ref(thing)
        stream.send("input", thing)
        del thing
        assert type(stream.recv("output").data) is Thing
        clock.until_waiting(len(flow.scheduler._workers))
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # There, an object that another thread drops last is freed when its maker runs again.
            gc.collect()
        assert known() is None


def forward(ctx):
    ctx.emit(ctx.input())
