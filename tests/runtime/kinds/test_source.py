"""Tests of sources whose buffers are separate sessions."""

import threading
from types import SimpleNamespace

import pytest

from modelflow.errors import FlowFailed
from modelflow.runtime.entry.submitter import WARN_AFTER
from modelflow.stream_io import StreamIO
from modelflow.unit import kind as kinds
from modelflow.unit.kind import Normal, Stream
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, graph_of, spec_of, unit_of


def source(values, **more):
    """Returns a source that emits a value each call; a pair is a value and session options."""

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

    return spec_of(Source, name="source", inputs=(), kind=kinds.Source(opens_sessions=True), **more)


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
            "slow": (unit(slow, kind=Normal(is_per_stream=True)), {"threads": 2, "batch_size": 1}),
            "keep": (sink(keep, kind=Normal(is_per_stream=True)), {"threads": 1, "batch_size": 1}),
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
            "three": (unit(three, kind=Stream()), {"threads": 2}),
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
        with pytest.raises(TimeoutError):  # the source is over, but its sessions are not
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
        assert not flow.scheduler._sessions.known


@pytest.mark.parametrize("is_failing", [False, True])
def test_the_end_of_a_session_is_told_once_outside_of_its_lock(is_failing):
    told, gate, flows = [], threading.Event(), []

    def ended(number):
        # The callback may use the flow because no lock is held.
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
    assert late == [True]  # the session is over: at once


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
    phases = []

    class Source(FlowUnit):
        def begin(self):
            phases.extend(worker.phase for worker in flow.scheduler._workers)
            message = "somebody was faster"
            raise OSError(message)

        def process(self, ctx):
            ctx.hold()

    def keep(ctx):
        pass

    nodes = {"source": spec_of(Source, name="source", inputs=()), "keep": sink(keep)}
    flow = Running(graph_of(nodes, ["source -> keep"]))
    with pytest.raises(FlowFailed) as raised, flow:
        pass
    (error,) = raised.value.exceptions
    assert (error.node, error.phase) == ("source", "open")
    assert "somebody was faster" in str(error)
    assert phases[0] == "open"


# -- a source step by step ------------------------------------------------------------------------


class Steps:
    """An inline flow of one source, whose worker the test drives."""

    def __init__(self, process, *, outputs=("out",), **options):
        self.clock, self.contexts = FakeClock(), []

        def call(ctx):
            self.contexts.append(ctx)
            self.phase = self.worker.phase
            process(ctx)

        nodes = {"source": unit_of(call, inputs=(), outputs=outputs), "output": "output"}
        edges = [f"source:{name} -> output" for name in outputs[:1]]
        if not outputs:
            nodes.pop("output")
        self._running = Running(graph_of(nodes, edges), is_inline=True, clock=self.clock, **options)

    def __enter__(self):
        self.flow = self._running
        self.worker, *_ = self.flow.scheduler._workers
        self._running.__enter__()
        return self

    def __exit__(self, *how):
        self._running.__exit__(*how)

    @property
    def session(self):
        return self.flow.scheduler.sources["source"]

    @property
    def events(self):
        return [ctx.event for ctx in self.contexts]


def hold(ctx):
    ctx.hold()


def test_a_source_that_holds_is_called_for_events_and_delayed_ones_when_they_are_due():
    with Steps(hold) as source:
        while source.worker.try_step():
            pass
        assert source.events == [None]
        send = source.contexts[0].send_event
        assert send("now")
        assert source.worker.try_step()
        assert not source.worker.try_step()
        assert send("later", delay=0.5)
        assert not source.worker.try_step()
        source.clock.advance(0.5)
        assert source.worker.try_step()
        assert source.events == [None, "now", "later"]


def test_a_source_takes_no_event_when_it_is_over_or_cancelled_or_the_flow_drains():
    with Steps(hold) as source:
        source.worker.try_step()
        send = source.contexts[0].send_event
        for thing, flag in (
            (source.worker, "_is_over"),
            (source.session, "is_cancelled"),
            (source.flow.scheduler, "is_draining"),
        ):
            assert send("before") is True
            setattr(thing, flag, True)
            assert send("after") is False
            setattr(thing, flag, False)


def test_a_source_sees_its_session_and_says_that_it_is_called():
    def process(ctx):
        ctx.session["seen"] = ctx.stream_meta
        ctx.hold()

    with Steps(process) as source:
        source.worker.try_step()
        assert source.session.context["seen"] is source.session.stream.meta
        assert source.contexts[0].inputs == {}
        assert source.phase == "process"


@pytest.mark.parametrize("how", ["is_cancelled", "is_closed"])
def test_a_source_whose_session_is_over_is_not_called(how):
    with Steps(hold) as source:
        calls = len(source.contexts)
        thing = source.session if how == "is_cancelled" else source.session.progress
        setattr(thing, how, True)
        assert not source.worker.step()
        assert len(source.contexts) == calls
        setattr(thing, how, False)


def test_a_source_that_may_not_produce_does_nothing():
    with Steps(lambda ctx: ctx.emit([1]), results_bound=1) as source:
        while source.worker.try_step():
            pass
        assert not source.worker.try_step()
        assert source.session.progress.sent == 1
        backpressure = source.worker._backpressure()
        source.flow.scheduler.is_draining = True
        backpressure.wait(None)  # no thread waits after the end of the flow
        source.flow.scheduler.is_draining = False


def test_an_inline_source_that_may_not_produce_ends_when_the_flow_does():
    with Steps(lambda ctx: ctx.emit([1]), results_bound=1) as source:
        source.worker.try_step()
        source.flow.scheduler.stop()  # the clock is stopped: no thread waits for a time limit
        assert source.session.is_finished


@pytest.mark.parametrize("outputs", [(), ("out",)])
def test_a_source_that_fails_counts_one_error_and_hands_it_on(outputs):
    def fail(ctx):
        raise OSError("no camera")

    with Steps(fail, outputs=outputs) as source:
        source.worker.try_step()
        results = source.session.results
        given = results["output"].get_all(source.clock, 0) if outputs else ()
        (error,) = [buffer.error for buffer in given] or source.session.progress.errors
        assert str(error.__cause__) == "no camera"
        assert source.worker._stats.errors == 1


def test_outputs_of_a_source_must_be_of_one_length():
    def process(ctx):
        ctx.emit([1, 2], "out")
        ctx.emit([1], "other")

    with Steps(process, outputs=("out", "other")) as source:
        source.worker.try_step()
        (bad,) = source.session.results["output"].get_all(source.clock, 0)
    assert "gave {'out': 2, 'other': 1} values; a source gives as many on every" in str(bad.error)


@pytest.mark.parametrize("outputs", [(), ("out",)])
def test_what_a_source_gives_is_counted_with_the_time_of_its_call(outputs):
    def process(ctx):
        source.clock.advance(2.0)
        for name in ctx.outputs:
            ctx.emit([1, 2], name)
        ctx.finish()

    with Steps(process, outputs=outputs) as source:
        source.worker.try_step()
        assert source.worker._stats.done == (2 * len(outputs), 2.0)


def test_sessions_that_a_source_opens_are_counted_with_what_it_emits():
    def process(ctx):
        ctx.emit([1])
        for value in (ValueError("is bad"), 2):
            ctx.open_session(value)
        ctx.finish()

    def keep(ctx):
        given.append(len(ctx.input()))
        seen.extend(row.data for row in ctx.input())

    given, seen = [], []
    nodes = {
        "source": unit_of(process, inputs=(), kind=kinds.Source(opens_sessions=True)),
        "keep": (sink(keep), {"batch_size": 1, "threads": 1}),
    }
    graph = graph_of(nodes, ["source -> keep"], max_in_flight=8)
    with Running(graph) as flow:
        assert flow.scheduler.wait(60)
        (error,) = flow.scheduler.sources["source"].progress.errors
        assert flow.scheduler._wiring._in_flight.rows == 0
    assert (sorted(seen), str(error.__cause__), error.node) == ([1, 2], "is bad", "source")
    assert sum(given) == 2  # without the row in error
    assert flow.scheduler.statistics()["source"].buffers == 3


def test_an_event_that_a_source_delays_wakes_it_when_it_is_due():
    clock, seen = FakeClock(), []

    def process(ctx):
        seen.append(ctx.event)
        if ctx.event is None:
            ctx.send_event("later", delay=5.0)
            ctx.hold()
        else:
            ctx.finish()

    nodes = {"source": unit_of(process, inputs=()), "output": "output"}
    with Running(graph_of(nodes, ["source -> output"]), clock=clock) as flow:
        clock.until_sleeping(2)  # in addition to the watchdog
        flow.scheduler._workers[0].wake()  # for nothing
        clock.advance(5.0)
        assert flow.scheduler.wait(60)
    assert seen == [None, "later"]


def test_a_source_waits_for_admission_and_warns_once_at_its_time(monkeypatch, caplog):
    with Steps(hold) as source:
        waits = []

        def wait(timeout):
            waits.append(timeout)
            source.clock.advance(3.0)

        blockers = iter([SimpleNamespace(wait=wait, reason="it is full")] * 4)
        monkeypatch.setattr(source.worker, "_backpressure", lambda: next(blockers, None))
        assert source.worker._wait_for_admission()
    assert waits == [WARN_AFTER, WARN_AFTER - 3.0, None, None]
    said = [r.getMessage() for r in caplog.records if "has waited" in r.getMessage()]
    assert said == ["the source has waited for 6 s: it is full"]


def test_a_source_of_several_outputs_ends_on_each():
    with Steps(hold, outputs=("out", "other")) as source:
        source.worker.try_step()
        source.flow.scheduler.stop()
        assert source.session.is_finished


class Held:
    """A source that waits for events; each call opens a session for every value in ``waiting``."""

    def __init__(self, bound=4, **flow):
        self.waiting, self.called, self.seen = [], threading.Semaphore(0), []
        self.go, self.inside = threading.Event(), threading.Semaphore(0)
        self.context = None
        outer = self

        class Source(FlowUnit):
            def process(self, ctx):
                outer.context = ctx
                for value in outer.waiting:
                    ctx.open_session(value)
                outer.waiting = []
                ctx.hold()
                outer.called.release()

        def keep(ctx):
            outer.inside.release()
            outer.go.wait()
            outer.seen.append(ctx.input()[0].data)

        spec = spec_of(Source, name="source", inputs=(), kind=kinds.Source(opens_sessions=True))
        settings = {"queue_size": bound, "batch_size": 1, "threads": 1}
        self.graph = graph_of({"source": spec, "keep": (sink(keep), settings)}, ["source -> keep"])

    def admit(self, *values):
        admission = self.context.admission
        return admission.admit([self.context.opening(value) for value in values])


def test_sessions_begin_from_outside_while_the_source_holds():
    held = Held()
    held.go.set()
    with Running(held.graph) as running:
        assert held.called.acquire(timeout=60)
        admission = held.context.admission
        assert admission.reserve()
        assert held.admit(1, 2, 3)
        admission.release()
    assert held.seen == [1, 2, 3]
    assert running.scheduler.statistics()["source"].buffers == 3
    assert not held.called.acquire(blocking=False)  # the source was not called for them
    assert not admission.reserve()


def test_where_there_is_no_room_nothing_is_begun_and_the_source_gives_it_for_an_event():
    held = Held(bound=2)
    with Running(held.graph):
        assert held.called.acquire(timeout=60)
        assert held.context.admission.reserve()
        assert held.admit(0)
        assert held.inside.acquire(timeout=60)
        assert held.admit(1, 2)
        assert not held.admit(3)
        held.waiting = [3]
        assert held.context.send_event()
        held.context.admission.release()
        held.go.set()
        assert held.called.acquire(timeout=60)
    assert held.seen == [0, 1, 2, 3]


@pytest.mark.parametrize("is_room", [True, False])
def test_what_was_reserved_still_comes_in_while_the_flow_is_drained(is_room):
    held = Held(bound=1)
    running = Running(held.graph).__enter__()
    assert held.called.acquire(timeout=60)
    admission = held.context.admission
    assert admission.reserve()
    if not is_room:
        held.admit(0)
        assert held.inside.acquire(timeout=60)
        held.admit(1)
    running.scheduler.is_draining = True
    assert not admission.reserve()  # nobody else
    if is_room:
        assert held.admit(2)
    else:
        assert not held.admit(2)
        held.waiting = [2]
        assert held.context.send_event()
    stop = threading.Thread(target=running.scheduler.stop)
    stop.start()
    held.go.set()
    admission.release()
    stop.join()
    assert held.seen == ([2] if is_room else [0, 1, 2])
    assert not held.context.send_event()


def test_an_abort_waits_for_nobody_who_has_reserved():
    held = Held()
    held.go.set()
    with Running(held.graph) as running:
        assert held.called.acquire(timeout=60)
        assert held.context.admission.reserve()
        running.scheduler.stop(drain=False)
    held.context.admission.release()
    assert held.seen == []


def test_only_sources_that_open_sessions_have_an_admission():
    found = []

    def process(ctx):
        found.append(ctx.admission)
        ctx.finish()

    graph = graph_of(
        {"source": unit_of(process, inputs=()), "keep": unit_of(lambda ctx: None, outputs=())},
        ["source -> keep"],
    )
    with Running(graph) as running:
        running.scheduler.wait()
    assert found == [None]
