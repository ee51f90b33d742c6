import contextlib
import threading
from types import SimpleNamespace

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import (
    Cancelled,
    DeadlineExceeded,
    EndOfStream,
    FlowFailed,
    FlowUnitError,
    QueueFullError,
    StreamClosed,
)
from modelflow.unit.kind import Kind
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of


def add_one(x):
    if x == "bad":
        raise ValueError("is bad")
    return x + 1


class Gate:
    """A unit that waits inside ``process`` until it is opened."""

    def __init__(self):
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def spec(self, **more):
        gate = self

        class Gated(FlowUnit):
            def process(self, ctx):
                gate.entered.release()
                gate.open.wait()
                ctx.outputs["out"] = ctx.inputs["in"]

        return spec_of(Gated, name="gated", **more)


def counting_source(count, step=1):
    class Count(FlowUnit):
        def process(self, ctx):
            first = ctx.state.get("next", 0)
            last = min(first + step, count)
            ctx.emit(list(range(first, last)))
            ctx.state["next"] = last
            if last == count:
                ctx.finish()

    return spec_of(Count, name="count", inputs=())


def collecting_sink(into):
    class Collect(FlowUnit):
        def process(self, ctx):
            for buffer in ctx.input():
                if buffer.data == "bad":
                    raise ValueError("cannot store")
                into.append(buffer.data)

    return spec_of(Collect, name="collect", outputs=())


def test_a_chain_gives_every_result_in_order():
    with Running(chain(per_item(add_one), (per_item(add_one), {"threads": 4}))) as flow:
        stream = flow.session()
        for i in range(500):
            stream.send("input", i)
        stream.close_input()
        assert [buffer.data for buffer in stream] == [i + 2 for i in range(500)]


def test_input_may_feed_output_directly():
    with Running(graph_of({"input": "input", "output": "output"}, ["input -> output"])) as flow:
        assert flow.infer(5).data == 5


def test_an_error_comes_out_in_its_place_and_the_next_recv_goes_on():
    with Running(chain(per_item(add_one), per_item(add_one))) as flow:
        stream = flow.session()
        for value in (1, "bad", 3):
            stream.send("input", value)
        stream.close_input()
        assert stream.recv().data == 3
        with pytest.raises(FlowUnitError, match=r"node 'n0' \(unit 'add_one'\).*is bad"):
            stream.recv()
        assert stream.recv().data == 5
        with pytest.raises(EndOfStream):
            stream.recv()


def test_sessions_do_not_see_each_other():
    with Running(chain((per_item(add_one), {"threads": 3}))) as flow:
        streams = [flow.session() for _ in range(20)]
        for i in range(30):
            for number, stream in enumerate(streams):
                stream.send("input", 1000 * number + i)
        for number, stream in enumerate(streams):
            stream.close_input()
            assert [b.data for b in stream] == [1000 * number + i + 1 for i in range(30)]


def test_a_slow_session_does_not_hold_back_another():
    gate = Gate()

    class SlowForOne(FlowUnit):
        def process(self, ctx):
            if ctx.input()[0].data == "slow":
                gate.open.wait()
            ctx.outputs["out"] = ctx.inputs["in"]

    with Running(chain((spec_of(SlowForOne), {"threads": 2, "batch_size": 1}))) as flow:
        slow = flow.session()
        slow.send("input", "slow")
        slow.send("input", "behind")
        assert flow.infer("quick").data == "quick"
        gate.open.set()
        assert [slow.recv().data, slow.recv().data] == ["slow", "behind"]


def test_fork_and_join_pair_what_stems_from_the_same_buffer():
    join = spec_of(
        lambda: type(
            "Join",
            (FlowUnit,),
            {
                "process": lambda self, ctx: ctx.emit(
                    [
                        (a.data, b.data)
                        for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)
                    ]
                )
            },
        )(),
        inputs=("a", "b"),
    )
    nodes = {
        "input": "input",
        "left": (per_item(add_one), {"threads": 3, "batch_size": 2}),
        "join": (join, {"queue_size": 1}),
        "output": "output",
    }
    edges = ["input -> left", "left -> join:a", "input -> join:b", "join -> output"]
    with Running(graph_of(nodes, edges)) as flow:
        stream = flow.session()
        for i in range(200):
            stream.send("input", i)
        stream.close_input()
        assert [b.data for b in stream] == [(i + 1, i) for i in range(200)]


def test_send_waits_for_a_slow_unit_and_nothing_is_lost():
    gate = Gate()
    settings = {"queue_size": 2, "batch_size": 1, "threads": 1}
    with Running(chain((gate.spec(), settings))) as flow:
        stream = flow.session()
        sent = 0
        with pytest.raises(TimeoutError, match="queue of node 'n0' is full"):
            while True:
                stream.send("input", sent, timeout=0.2)
                sent += 1
        assert sent <= 4  # one in the unit, two in the queue, one on its way
        gate.open.set()
        stream.send("input", sent)
        stream.close_input()
        assert [b.data for b in stream] == list(range(sent + 1))


def test_rejecting_queue_refuses_at_once():
    gate = Gate()
    settings = {"queue_size": 1, "batch_size": 1, "threads": 1, "queue_policy": "reject"}
    with Running(chain((gate.spec(), settings))) as flow:
        stream = flow.session()
        with pytest.raises(QueueFullError, match="queue of node 'n0' is full"):
            for i in range(5):
                stream.send("input", i)
        gate.open.set()


def test_results_that_nobody_receives_hold_send_back_and_say_so():
    with Running(chain(per_item(add_one)), results_bound=10) as flow:
        stream = flow.session()
        for i in range(10):
            stream.send("input", i)
        with pytest.raises(TimeoutError, match=r"10 buffers of session .* have not been received"):
            stream.send("input", 10, timeout=0)
        assert flow.infer(1).data == 2  # nobody else is held back
        assert stream.recv().data == 1
        stream.send("input", 10, timeout=60)


def test_max_in_flight_bounds_the_whole_graph():
    gate = Gate()
    graph = chain((gate.spec(), {"queue_size": 64, "threads": 1}), max_in_flight=3)
    with Running(graph) as flow:
        stream = flow.session()
        for i in range(3):
            stream.send("input", i)
        with pytest.raises(TimeoutError, match="max_in_flight=3"):
            stream.send("input", 3, timeout=0)
        gate.open.set()
        assert stream.recv().data == 0
        stream.send("input", 3, timeout=60)
        stream.close_input()
        assert [b.data for b in stream] == [1, 2, 3]


def test_cancel_frees_max_in_flight_for_others():
    gate = Gate()
    graph = chain((gate.spec(), {"queue_size": 64, "threads": 1}), max_in_flight=2)
    with Running(graph) as flow:
        first = flow.session()
        first.send("input", 0)
        first.send("input", 1)
        first.cancel()
        second = flow.session()
        second.send("input", 2, timeout=60)
        gate.open.set()
        assert second.recv().data == 2


def test_cancel_drops_what_is_queued_and_wakes_the_reader():
    gate = Gate()
    seen = []
    watch = per_item(lambda x: seen.append(x))
    settings = {"batch_size": 1, "threads": 1}
    with Running(chain((gate.spec(), settings), (watch, settings))) as flow:
        stream = flow.session()
        for i in range(5):
            stream.send("input", i)
        gate.entered.acquire()
        failures = []

        def read():
            try:
                stream.recv()
            except Cancelled as error:
                failures.append(error)

        reader = threading.Thread(target=read, name="modelflow/test")
        reader.start()
        stream.cancel()
        reader.join()
        gate.open.set()
        assert len(failures) == 1
        with pytest.raises(Cancelled):
            stream.send("input", 1)
        assert flow.scheduler.statistics()["n0"].buffers <= 1
    assert seen == []


def test_a_deadline_spares_the_unit_what_nobody_waits_for():
    gate = Gate()
    seen = []

    def watch(x):
        seen.append(x)
        return x

    settings = {"batch_size": 1, "threads": 1}
    with Running(chain((gate.spec(), settings), (per_item(watch), settings))) as flow:
        stream = flow.session()
        stream.send("input", "late", deadline=-1.0)
        stream.send("input", "in time", deadline=60.0)
        gate.open.set()
        with pytest.raises(DeadlineExceeded):
            stream.recv()
        assert stream.recv().data == "in time"
    assert seen == ["in time"]


def test_a_source_runs_to_its_end_through_a_sink():
    got = []
    nodes = {"source": counting_source(100, step=7), "sink": collecting_sink(got)}
    with Running(graph_of(nodes, ["source -> sink"])) as flow:
        assert flow.scheduler.wait(timeout=60)
    assert got == list(range(100))


def test_errors_that_end_at_a_sink_are_kept_with_their_session():
    got = []

    class Three(FlowUnit):
        def process(self, ctx):
            ctx.emit([1, "bad", 3])
            ctx.finish()

    sink = (collecting_sink(got), {"batch_size": 1, "threads": 1})
    nodes = {"source": spec_of(Three, inputs=()), "sink": sink}
    with Running(graph_of(nodes, ["source -> sink"])) as flow:
        assert flow.scheduler.wait(timeout=60)
        session = flow.scheduler.sources["source"]
    assert got == [1, 3]
    assert session.progress.error_count == 1
    assert "cannot store" in str(session.progress.errors[0])


def test_a_failing_source_ends_its_stream_with_the_error():
    class Fails(FlowUnit):
        def process(self, ctx):
            raise OSError("no such camera")

    nodes = {"source": spec_of(Fails, inputs=()), "sink": collecting_sink([])}
    with Running(graph_of(nodes, ["source -> sink"])) as flow:
        assert flow.scheduler.wait(timeout=60)
        assert "no such camera" in str(flow.scheduler.sources["source"].progress.errors[0])


def test_stop_without_drain_wakes_readers_and_senders():
    gate = Gate()
    settings = {"queue_size": 1, "batch_size": 1, "threads": 1}
    flow = Running(chain((gate.spec(), settings)))
    flow.scheduler.start()
    stream = flow.session()
    woken = []

    def call(function, *args):
        try:
            while True:
                function(*args)
        except StreamClosed as error:
            woken.append(str(error))

    threads = [
        threading.Thread(target=call, args=(stream.recv,), name="modelflow/test/recv"),
        threading.Thread(target=call, args=(stream.send, "input", 1), name="modelflow/test/send"),
    ]
    for thread in threads:
        thread.start()
    gate.entered.acquire()
    gate.open.set()
    flow.scheduler.stop(drain=False)
    for thread in threads:
        thread.join()
    assert len(woken) == 2


def test_stop_drains_what_was_sent():
    with Running(chain((per_item(add_one), {"batch_size": 1}))) as flow:
        stream = flow.session()
        for i in range(200):
            stream.send("input", i)
        flow.scheduler.stop()
        assert [b.data for b in stream] == [i + 1 for i in range(200)]
        with pytest.raises(StreamClosed, match="closed"):
            stream.send("input", 1)
        with pytest.raises(StreamClosed, match="it is stopped"):
            flow.session()


def test_stop_is_idempotent_and_safe_from_several_threads():
    flow = Running(chain(per_item(add_one)))
    flow.scheduler.start()
    threads = [
        threading.Thread(target=flow.scheduler.stop, name=f"modelflow/test/{i}") for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flow.scheduler.stop()
    assert not flow.scheduler.is_running


def test_every_unit_is_opened_and_closed_once_a_worker():
    calls = []

    class Counted(FlowUnit):
        def open(self, config):
            calls.append("open")

        def process(self, ctx):
            raise ValueError

        def close(self):
            calls.append("close")

    with Running(chain((spec_of(Counted), {"threads": 3}))) as flow, pytest.raises(FlowUnitError):
        flow.infer(1)
    assert sorted(calls) == ["close"] * 3 + ["open"] * 3


def test_a_shared_unit_has_one_instance():
    calls = []

    class Counted(FlowUnit):
        def open(self, config):
            calls.append("open")

        def process(self, ctx):
            ctx.outputs["out"] = ctx.inputs["in"]

        def close(self):
            calls.append("close")

    with Running(chain((spec_of(Counted, is_shared=True), {"threads": 4}))) as flow:
        flow.infer(1)
    assert calls == ["open", "close"]


def test_a_unit_that_does_not_open_fails_the_start_and_closes_the_others():
    closed = []

    class Opens(FlowUnit):
        def close(self):
            closed.append(1)

    class DoesNot(FlowUnit):
        def open(self, config):
            raise OSError("no model here")

    flow = Running(chain(spec_of(Opens), spec_of(DoesNot, name="broken"), spec_of(Opens)))
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.start()
    (error,) = set(map(str, caught.value.exceptions))
    assert error == "node 'n1' (unit 'broken') failed in open: OSError: no model here"
    assert closed
    with pytest.raises(StreamClosed, match="has failed"):
        flow.session()


def test_a_unit_that_fails_to_close_is_named_by_stop():
    class DoesNotClose(FlowUnit):
        def process(self, ctx):
            ctx.outputs["out"] = ctx.inputs["in"]

        def close(self):
            raise OSError("busy")

    flow = Running(chain((spec_of(DoesNotClose), {"threads": 1})))
    flow.scheduler.start()
    assert flow.infer(1).data == 1
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.stop()
    assert "failed in close: OSError: busy" in str(caught.value.exceptions[0])


def test_a_unit_that_hangs_is_named_and_everyone_else_ends():
    gate = Gate()
    settings = {"threads": 1, "batch_size": 1}
    graph = chain((per_item(add_one), settings), (gate.spec(), settings), (spec_of(), settings))
    flow = Running(graph, stop_timeout=2)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    gate.entered.acquire()
    with pytest.raises(FlowFailed) as caught:
        flow.scheduler.stop()
    (error,) = caught.value.exceptions
    assert error.node == "n1"
    assert "did not return within 2 s" in str(error)
    assert "in wait" in str(error)
    alive = [t.name for t in threading.enumerate() if t.name.startswith("modelflow/")]
    assert alive == ["modelflow/test/n1/0"]
    with pytest.raises(StreamClosed):
        stream.recv()
    gate.open.set()


def test_a_bug_of_the_runtime_fails_the_flow_and_wakes_everyone(monkeypatch):
    flow = Running(chain(per_item(add_one)))
    flow.scheduler.start()
    stage = flow.scheduler._wiring.stages["n0"]
    monkeypatch.setattr(stage.outbox, "emit", lambda *_: 1 / 0)
    stream = flow.session()
    stream.send("input", 1)
    with pytest.raises(StreamClosed, match=r"has failed.*node 'n0'.*ZeroDivisionError"):
        stream.recv()
    with pytest.raises(FlowFailed):
        flow.scheduler.wait()


def test_statistics_count_batches_rows_and_errors():
    with Running(chain((per_item(add_one), {"threads": 1, "batch_size": 4}))) as flow:
        stream = flow.session()
        stream.send("input", "bad")
        for i in range(9):
            stream.send("input", i)
        stream.close_input()
        while True:
            try:
                stream.recv_buffer()
            except EndOfStream:
                break
        stats = flow.scheduler.statistics()["n0"]
    assert (stats.node, stats.unit, stats.threads) == ("n0", "add_one", 1)
    assert stats.buffers == 10
    assert stats.errors == 1
    assert sum(stats.batch_sizes.values()) == stats.batches
    assert sum(size * calls for size, calls in stats.batch_sizes.items()) == 10
    assert stats.mean_batch_size == 10 / stats.batches


def test_an_inline_flow_runs_on_the_calling_thread():
    threads = set()

    def where(x):
        threads.add(threading.current_thread())
        return x

    with Running(chain(per_item(where), per_item(where)), is_inline=True) as flow:
        stream = flow.session()
        stream.send("input", 1)
        assert stream.recv().data == 1
        assert flow.infer(2).data == 2
    assert threads == {threading.current_thread()}


def test_an_inline_source_runs_in_wait():
    got = []
    nodes = {"source": counting_source(20, step=3), "sink": collecting_sink(got)}
    with Running(graph_of(nodes, ["source -> sink"]), is_inline=True) as flow:
        assert flow.scheduler.wait(timeout=60)
    assert got == list(range(20))


def test_ctrl_c_while_draining_still_ends_every_thread(monkeypatch):
    flow = Running(chain(per_item(add_one)))
    flow.scheduler.start()

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(flow.scheduler, "_drain", interrupt)
    with pytest.raises(KeyboardInterrupt):
        flow.scheduler.stop()
    assert not [t for t in threading.enumerate() if t.name.startswith("modelflow/test/n0")]
    flow.scheduler.stop()


# -- waiting, in time that passes while somebody waits -------------------------------------------


def test_wait_gives_up_at_its_time_also_when_it_is_woken_too_early():
    clock = Passing(longest=1.5)
    with Running(chain(spec_of()), is_inline=True, clock=clock) as flow:
        assert not flow.scheduler.wait(2.0)
        assert clock.waits == [1.5, 0.5]
        session = flow.scheduler.create_session()
        assert not flow.scheduler.wait_for(session, 2.0)
        assert clock.waits == [1.5, 0.5] * 2
        assert not flow.scheduler.wait(0.0)
        assert not flow.scheduler.wait_for(session, 0.0)
        flow.scheduler.cancel(session)
        assert flow.scheduler.wait_for(session, 0.0)
    assert flow.scheduler.wait(0.0)


def test_a_stop_lets_streams_be_held_for_its_time_and_no_longer(caplog):
    def hold(ctx):
        ctx.hold()
        ctx.emit([buffer.data for buffer in ctx.input()])

    clock = Passing(longest=1.5)
    unit = unit_of(hold, kind=Kind.STREAM)
    flow = Running(chain(unit), is_inline=True, clock=clock, stop_timeout=2.0)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    assert flow.scheduler.held() == {"inbox of 'n0'": 1, "sessions": 1}
    flow.scheduler.stop()
    assert clock.waits == [1.5, 0.5]
    assert told(stream) == [1]
    assert (flow.scheduler.held(), caplog.text) == ({}, "")


# -- what is refused, and in which words ---------------------------------------------------------


def test_a_flow_says_why_no_session_can_be_made():
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(StreamClosed, match="flow 'test' is not running: it is new"):
        flow.session()
    with flow:
        with pytest.raises(StreamClosed, match="flow 'test' is running; it can be started once"):
            flow.scheduler.start()
        assert [flow.scheduler.create_session().name for _ in range(2)] == ["1", "2"]
    with pytest.raises(StreamClosed, match="flow 'test' is not running: it is stopped"):
        flow.session()
    nodes = {"a": counting_source(1), "b": counting_source(1), "x": "output", "y": "output"}
    sources = Running(graph_of(nodes, ["a -> x", "b -> y"]), is_inline=True)
    with pytest.raises(StreamClosed, match="has no input; it is fed by its sources: 'a', 'b'"):
        sources.session()


def test_a_flow_of_another_process_is_refused_and_left_alone():
    with Running(chain(spec_of()), is_inline=True) as flow:
        flow.scheduler.check_process()
        flow.scheduler.disown()
        with pytest.raises(StreamClosed, match="make the Flow after the fork"):
            flow.scheduler.check_process()
        flow.scheduler.stop()
        assert not flow.scheduler.is_stopped
        flow.scheduler.is_foreign = False


@pytest.mark.parametrize("error", [NotImplementedError("nothing"), OSError("no file")])
def test_a_unit_that_does_not_reload_is_named_where_it_was_asked_for(error):
    def reload():
        raise error

    units = [unit_of(None, is_shared=True, hooks={"reload": reload}) for _ in range(2)]
    with Running(chain(*units), is_inline=True) as flow:
        with pytest.raises(FlowUnitError) as caught:
            flow.scheduler.reload("n1")
        found = caught.value
        assert (found.node, found.unit, found.phase) == ("n1", "forward", "reload")
        assert found.__cause__ is error
        assert f"failed in reload: {type(error).__name__}: {error}" in str(found)
        if isinstance(error, NotImplementedError):
            flow.scheduler.reload(None)  # those that can
        else:
            with pytest.raises(FlowUnitError, match="node 'n0'"):
                flow.scheduler.reload(None)
    with pytest.raises(StreamClosed, match="nothing can be reloaded"):
        flow.scheduler.reload("n1")


def test_a_session_that_was_dropped_is_ended_and_named_when_the_next_one_is_made(caplog):
    with Running(chain(spec_of()), is_inline=True) as flow:
        first, second = flow.scheduler.create_session(), flow.scheduler.create_session()
        flow.scheduler.entrance.close(second)
        for session in (first, second):
            session.results["output"].put([], False)
            flow.scheduler.drop(session)
        flow.scheduler.create_session()
        assert [s.results["output"].is_abandoned for s in (first, second)] == [True, True]
        assert first.progress.is_closed
    said = [r.getMessage() for r in caplog.records if "dropped" in r.getMessage()]
    assert said == ["session '0' was dropped without close_input(); its input ends now"]


def test_an_error_that_several_workers_have_is_one(caplog):
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(FlowFailed) as caught, flow:
        for _ in range(2):
            flow.scheduler.failed(FlowUnitError("no good", node="n0"))
        flow.scheduler.failed(FlowUnitError("no good", node="n1"))
    assert [error.node for error in caught.value.exceptions] == ["n0", "n1"]
    assert "flow 'test' fails: node 'n0'" in caplog.text


def test_what_is_not_there_has_no_tensor():
    shared = unit_of(None, is_shared=True, hooks={"tensors": lambda: {"in": "a spec"}})
    with Running(chain(shared, spec_of()), is_inline=True) as flow:
        assert flow.scheduler.tensor("nowhere", "in") is None
        assert flow.scheduler.tensor("n1", "in") is None
        assert flow.scheduler.tensor("n0", "in") == "a spec"


# -- starting and ending, step by step -----------------------------------------------------------


def fed_by_a_source():
    nodes = {"source": unit_of(None, inputs=()), "output": "output"}
    return Running(graph_of(nodes, ["source -> output"]), is_inline=True).scheduler


def test_a_session_of_a_source_counts_until_it_is_over_and_leaves_it_its_errors():
    scheduler = fed_by_a_source()
    source = scheduler.sources["source"]
    opened = scheduler._open_session(source)
    assert (opened.name, opened.origin, opened.reader) == ("source/0", "source", source.progress)
    assert scheduler._open_session(source).name == "source/1"
    assert (scheduler._opened_by_sources, scheduler.held()["sessions"]) == (2, 3)
    opened.progress.record_errors([Buffer.from_error(FlowUnitError("no good"))])
    opened.cancel()
    assert (scheduler._opened_by_sources, scheduler.held()["sessions"]) == (1, 2)
    assert [str(error) for error in source.progress.errors] == ["no good"]


@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_session_that_a_source_opens_too_late_ends_for_the_same_reason(is_aborted):
    scheduler, reason = fed_by_a_source(), StreamClosed("it is over")
    source = scheduler.sources["source"]
    source.cancel(reason)
    if is_aborted:
        scheduler._abort()
    opened = scheduler._open_session(source)
    assert opened.is_cancelled
    text = "flow 'test' is not running: it is new"
    assert str(opened.failure) == (text if is_aborted else "it is over")


@pytest.mark.parametrize("is_given_up", [True, False])
def test_whoever_has_opened_its_unit_waits_for_the_others(is_given_up, monkeypatch):
    clock, found = FakeClock(), []
    scheduler = Running(chain(spec_of()), is_inline=True, clock=clock).scheduler

    def check():
        if is_given_up:
            raise ValueError("not like this")

    def wait():
        found.append(scheduler.wait_until_all_open())

    thread = threading.Thread(target=wait, name="modelflow/test/opened")
    thread.start()
    clock.until_waiting()
    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "stop", lambda drain: thread.join())
        with pytest.raises(ValueError, match="not") if is_given_up else contextlib.nullcontext():
            scheduler.start(check)
    thread.join()
    assert found == [not is_given_up]
    scheduler.stop()


def test_a_start_returns_when_every_unit_is_open_is_checked_and_has_begun(monkeypatch):
    clock, order = FakeClock(), []

    def note(what):
        clock.until_waiting(2)  # the watchdog, and the start
        order.append(what)

    def begin():
        note("begin")
        scheduler.begun()

    unit = unit_of(None, hooks={"open": lambda _: note("open")})
    scheduler = Running(chain((unit, {"threads": 1})), clock=clock).scheduler
    monkeypatch.setattr(scheduler._workers[0], "begin", begin)
    scheduler.start(lambda: order.append("check"))
    order.append("started")
    scheduler.stop()
    assert order == ["open", "check", "begin", "started"]


@pytest.mark.parametrize("phase", ["open", "close"])
def test_what_start_or_stop_raises_is_not_logged_as_well(phase, caplog):
    def fail(*_):
        raise OSError("gone")

    unit = unit_of(None, hooks={phase: fail})
    with pytest.raises(FlowFailed, match="flow 'test' failed"), Running(chain(unit)):
        pass
    assert "fails" not in caplog.text


@pytest.mark.parametrize("drain", [True, False])
def test_a_second_stop_cuts_the_first_one_short_only_where_it_does_not_drain(drain):
    def hold(ctx):
        ctx.hold()
        ctx.emit([buffer.data for buffer in ctx.input()])

    clock = FakeClock()
    unit = unit_of(hold, kind=Kind.STREAM)
    flow = Running(chain(unit), is_inline=True, clock=clock, stop_timeout=2.0)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    first, second = (
        threading.Thread(target=flow.scheduler.stop, args=(how,), name=f"modelflow/test/stop/{how}")
        for how in (True, drain)
    )
    first.start()
    clock.until_sleeping()
    second.start()
    if drain:
        clock.until_waiting()
        clock.advance(2.0)
    for thread in (first, second):
        thread.join()
    if drain:
        assert told(stream) == [1]
    else:
        assert stream._session.failure is not None
        assert "it is stopping" in str(stream._session.failure)


def test_a_drain_looks_again_after_its_time_whether_something_has_moved(monkeypatch, caplog):
    clock, cuts, closed = Passing(longest=1.5), [], []
    flow = Running(chain(spec_of()), is_inline=True, clock=clock, stop_timeout=2.0)
    flow.scheduler.start()
    session = flow.scheduler.create_session()
    done = iter([0, 1, 2, 2])
    monkeypatch.setattr(flow.scheduler, "entrance", SimpleNamespace(close=closed.append))
    monkeypatch.setattr(flow.scheduler._wiring, "done", done.__next__)
    monkeypatch.setattr(flow.scheduler._wiring, "end_cycles", lambda: cuts.append(clock.now()))
    flow.scheduler.stop()
    assert clock.waits == [1.5, 0.5] * 3
    assert cuts == [1002.0]  # once
    assert closed == [session]
    assert session.is_cancelled
    assert caplog.messages == ["flow 'test': nothing has moved for 2 s; what is left is dropped"]


@pytest.mark.parametrize("given", [{}, {"drain": True}, {"drain": False}])
def test_a_stop_that_is_asked_for_is_made_elsewhere_and_raises_nothing_there(given, monkeypatch):
    scheduler, calls = Running(chain(spec_of()), is_inline=True).scheduler, []

    def stop(drain):
        calls.append(drain)
        raise FlowFailed("no good", [ValueError("bad")])

    monkeypatch.setattr(scheduler, "stop", stop)
    monkeypatch.setattr("_thread.start_new_thread", lambda function, args: function(*args))
    scheduler.request_stop(**given)
    assert calls == [given.get("drain", True)]


def test_a_flow_runs_from_its_start_to_its_stop():
    flow = Running(chain(spec_of()), is_inline=True)
    seen = [(flow.scheduler.is_running, flow.scheduler.is_stopped)]
    with flow:
        seen.append((flow.scheduler.is_running, flow.scheduler.is_stopped))
        assert not flow.scheduler.is_draining
    seen.append((flow.scheduler.is_running, flow.scheduler.is_stopped))
    assert seen == [(False, False), (True, False), (False, True)]
    assert flow.scheduler.is_draining


def test_options_reach_what_they_are_for():
    clock, observer = FakeClock(), object()
    graph = chain((spec_of(), {"threads": 2}), spec_of())
    options = {"clock": clock, "observer": observer, "results_bound": 7, "watchdog_interval": 3.0}
    scheduler = Running(graph, **options).scheduler
    assert scheduler.observer is observer
    assert scheduler._wiring.stages["n0"].unread_bound == 7
    assert [(w.stage.plan.name, w.number) for w in scheduler._workers][:3] == [
        ("n0", 0),
        ("n0", 1),
        ("n1", 0),
    ]
    watchdog = scheduler._runner._watchdog
    assert (watchdog._interval, watchdog._clock, watchdog._flow) == (3.0, clock, "test")


def test_a_start_that_ctrl_c_breaks_off_drains_nothing(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    scheduler, drained = fed_by_a_source(), []
    assert scheduler.sources["source"].name == "source"
    monkeypatch.setattr(scheduler._runner, "begin", interrupt)
    monkeypatch.setattr(scheduler, "_drain", lambda: drained.append(1))
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
    assert (scheduler.is_stopped, drained) == (True, [])


@pytest.mark.parametrize("of_one", [True, False])
def test_who_waits_without_a_limit_is_woken_by_the_end(of_one):
    clock, found = FakeClock(), []
    flow = Running(chain(spec_of()), is_inline=True, clock=clock)
    with flow:
        session = flow.scheduler.create_session()

        def wait():
            found.append(flow.scheduler.wait_for(session) if of_one else flow.scheduler.wait())

        thread = threading.Thread(target=wait, name="modelflow/test/wait")
        thread.start()
        clock.until_waiting()
        flow.scheduler.cancel(session)
    thread.join()
    assert found == [True]


def test_what_a_failed_flow_refuses_has_the_failure_as_its_cause():
    error = FlowUnitError("no good", node="n0")
    flow = Running(chain(spec_of()), is_inline=True)
    with pytest.raises(FlowFailed), flow:
        flow.scheduler.failed(error)
        with pytest.raises(StreamClosed, match="flow 'test' has failed: node 'n0'") as refused:
            flow.session()
    assert refused.value.__cause__ is error


def test_a_failure_while_units_begin_is_raised_by_the_start_and_not_logged(monkeypatch, caplog):
    scheduler = fed_by_a_source()
    error = FlowUnitError("no good", node="source")
    monkeypatch.setattr(scheduler._runner, "begin", lambda: scheduler.failed(error))
    with pytest.raises(FlowFailed) as caught:
        scheduler.start()
    assert caught.value.exceptions == (error,)
    assert caplog.text == ""


def test_a_flow_that_never_started_is_stopped_for_good():
    scheduler = fed_by_a_source()
    scheduler.stop()
    assert scheduler.is_stopped
    assert scheduler.sources["source"].is_cancelled
    with pytest.raises(StreamClosed, match="flow 'test' is stopped"):
        scheduler.start()


def test_a_drain_does_not_wait_for_what_ends_at_the_last_moment(monkeypatch):
    flow = Running(chain(spec_of()), is_inline=True, clock=Passing(), stop_timeout=2.0)
    flow.scheduler.start()
    session, lock = flow.scheduler.create_session(), flow.scheduler._lock
    done = iter([lambda: None, session.cancel])

    class Late:
        """The flow's lock, which somebody else who ends the session had first."""

        def __enter__(self):
            if flow.scheduler.is_draining:
                next(done, lambda: None)()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    monkeypatch.setattr(flow.scheduler, "entrance", SimpleNamespace(close=lambda _: None))
    monkeypatch.setattr(flow.scheduler, "_lock", Late())
    flow.scheduler.stop()
    assert session.is_cancelled
    assert session.failure is None  # it was not the stop
    assert flow.scheduler._clock.waits == []


def test_a_stop_inside_a_unit_names_its_node(monkeypatch):
    scheduler = Running(chain(spec_of()), is_inline=True).scheduler
    (worker,) = scheduler._workers[:1]
    monkeypatch.setattr(scheduler._runner, "worker_here", lambda: worker)
    with pytest.raises(RuntimeError, match=r"flow 'test': stop\(\) was called by node 'n0'"):
        scheduler.stop()
