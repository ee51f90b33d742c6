import asyncio
import logging
import threading

import pytest

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
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, unit_of


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


# -- stopping -------------------------------------------------------------------------------------


def stopped(flow, clock, *steps):
    """Stops a flow on another thread, and turns its clock by ``steps`` seconds meanwhile."""
    failures = []

    def stop():
        try:
            flow.scheduler.stop()
        except FlowFailed as error:
            failures.append(error)

    thread = threading.Thread(target=stop, name="modelflow/test/stop")
    thread.start()
    for seconds in steps:
        clock.until_sleeping(2)  # the watchdog, and the stop
        clock.advance(seconds)
    thread.join(60)
    assert not thread.is_alive()
    assert flow.scheduler.held() == {}
    return failures


def test_stop_while_a_node_gathers_a_batch_ends_every_thread():
    clock = FakeClock()
    settings = {"batch_size": 8, "batch_timeout_ms": 300, "threads": 2}
    flow = Running(chain((spec_of(), settings)), clock=clock)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    clock.until_sleeping(2)  # the watchdog, and the worker that gathers
    flow.scheduler.stop(drain=False)
    assert flow.scheduler.held() == {}


def posting(calls, *, delay=0.0, is_emitting=False):
    """A stream unit that sends itself events for ever."""

    def process(ctx):
        calls.release()
        if is_emitting:
            ctx.emit([len(ctx.input())])
        ctx.send_event(True, delay)

    return unit_of(process, kind=Kind.STREAM, name="posting")


@pytest.mark.parametrize("is_emitting", [False, True])
def test_stop_ends_a_stream_that_sends_itself_events_for_ever(is_emitting):
    clock, calls = FakeClock(), threading.Semaphore(0)
    graph = chain((posting(calls, is_emitting=is_emitting), {"threads": 1}))
    flow = Running(graph, clock=clock, stop_timeout=2)
    flow.scheduler.start()
    stream = flow.session()
    stream._session.progress.is_collected = True  # nothing waits for the reader
    stream.send("input", 1)
    for _ in range(20):
        assert calls.acquire(timeout=60)
    assert stopped(flow, clock, 2.0) == []
    assert stream.wait(0)


def test_stop_brings_what_was_delayed_at_once_and_lets_nothing_be_delayed_again():
    clock, calls = FakeClock(), threading.Semaphore(0)
    flow = Running(chain((posting(calls, delay=3600.0), {"threads": 1})), clock=clock)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    assert calls.acquire(timeout=60)
    clock.until_sleeping(2)  # the watchdog, and the worker until the event is due
    assert stopped(flow, clock) == []
    assert calls.acquire(timeout=60)  # the one that was delayed
    assert not calls.acquire(blocking=False)


def test_stop_ends_a_source_that_holds():
    held = threading.Event()

    def process(ctx):
        ctx.hold()
        held.set()

    nodes = {"source": unit_of(process, inputs=()), "output": "output"}
    flow = Running(graph_of(nodes, ["source -> output"]))
    flow.scheduler.start()
    assert held.wait(60)
    flow.scheduler.stop()
    assert flow.scheduler.held() == {}


def test_stop_drops_what_does_not_move_and_says_so():
    clock, gate, said = FakeClock(), Gate(), []

    class Listener(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            gate.open.set()

    flow = Running(chain((gate.spec(), {"threads": 1})), clock=clock, stop_timeout=2)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    gate.entered.acquire()
    listener = Listener(logging.WARNING)
    logging.getLogger("modelflow").addHandler(listener)
    try:
        assert stopped(flow, clock, 2.0) == []
    finally:
        logging.getLogger("modelflow").removeHandler(listener)
    assert said == ["flow 'test': nothing has moved for 2 s; what is left is dropped"]
    with pytest.raises(StreamClosed):
        stream.recv()


def test_a_forced_stop_keeps_nothing_of_any_session():
    gate = Gate()

    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    specs = [
        (spec_of(), {"threads": 2}),
        unit_of(same, kind=Kind.STREAM),
        unit_of(same, kind=Kind.EXPAND),
        unit_of(same, kind=Kind.COLLAPSE),
        (gate.spec(), {"threads": 2, "batch_size": 1}),
    ]
    flow = Running(chain(*specs))
    flow.scheduler.start()
    streams = [flow.session() for _ in range(5)]
    for stream in streams:
        for i in range(10):
            stream.send("input", i)
    gate.entered.acquire()
    assert flow.scheduler.held() != {}
    gate.open.set()
    flow.scheduler.stop(drain=False)
    held = flow.scheduler.held()
    held.pop("sessions", None)
    assert held == {}


def test_a_session_that_is_cancelled_leaves_nothing_behind_where_branches_meet():
    gate = Gate()

    def part(ctx):
        for buffer in ctx.input():
            ctx.emit([buffer.data], "out" if buffer.data % 2 else "other")

    nodes = {
        "input": "input",
        "part": unit_of(part, outputs=("out", "other"), kind=Kind.CONDITION),
        "slow": (gate.spec(), {"threads": 1}),
        "quick": spec_of(),
        "join": spec_of(),
        "output": "output",
    }
    edges = [
        "input -> part",
        "part:out -> slow",
        "part:other -> quick",
        "slow -> join",
        "quick -> join",
        "join -> output",
    ]
    with Running(graph_of(nodes, edges)) as flow:
        stream = flow.session()
        for i in range(1, 6):
            stream.send("input", i)
        gate.entered.acquire()
        stream.cancel()
        gate.open.set()
        assert flow.infer(2).data == 2
        assert flow.scheduler.held() == {}


# -- one session and the others -------------------------------------------------------------------


@pytest.mark.parametrize("split_size", [0, 1])
def test_a_session_whose_order_is_held_up_holds_up_nobody_else(split_size):
    gate = Gate()

    def process(ctx):
        if any(buffer.data == "slow" for buffer in ctx.input()):
            gate.entered.release()
            gate.open.wait()
        ctx.outputs["out"] = ctx.inputs["in"]

    settings = {"threads": 4, "batch_size": 1, "queue_size": 4, "split_size": split_size}
    with Running(chain((unit_of(process), settings))) as flow:
        slow, quick = flow.session(), flow.session()
        slow.send("input", "slow")
        gate.entered.acquire()
        sent = ["slow"]
        with pytest.raises(TimeoutError, match="queue of node 'n0' is full"):
            for i in range(1000):
                slow.send("input", i, timeout=0.2)
                sent.append(i)
        assert len(sent) < 100  # it is held back itself
        for i in range(50):
            quick.send("input", i, timeout=60)
            assert quick.recv(timeout=60).data == i
        assert slow.ready() == 0
        gate.open.set()
        slow.close_input()
        assert [buffer.data for buffer in slow] == sent


def test_a_dropped_session_ends_and_nothing_is_kept_of_it(caplog):
    with Running(chain(per_item(add_one))) as flow:
        for i in range(50):
            stream = flow.session()
            stream.send("input", i)
            assert stream.recv().data == i + 1
            del stream
        last = flow.session()  # ends those that were dropped
        last.close_input()
        for session in list(flow.scheduler._sessions):
            assert flow.scheduler.wait_for(session, 60)
        assert flow.scheduler.held() == {}
    assert "was dropped without close_input(); its input ends now" in caplog.text


def test_the_watchdog_ends_dropped_sessions_where_nobody_makes_another():
    clock = FakeClock()
    with Running(chain(per_item(add_one)), clock=clock, watchdog_interval=5) as flow:
        stream = flow.session()
        session = stream._session
        stream.send("input", 1)
        clock.until_sleeping(1)
        del stream
        waiting = threading.Thread(
            target=flow.scheduler.wait_for, args=(session,), name="modelflow/test/wait"
        )
        waiting.start()
        clock.until_waiting(1)
        clock.advance(5)
        waiting.join(60)
        assert not waiting.is_alive()
        assert flow.scheduler.held() == {}


def test_a_dropped_session_that_had_ended_its_input_is_finished_quietly(caplog):
    with Running(chain(per_item(add_one))) as flow:
        stream = flow.session()
        session = stream._session
        stream.send("input", 1)
        stream.close_input()
        del stream
        assert flow.scheduler.wait_for(session, 60)
        flow.session().close_input()
    assert "was dropped" not in caplog.text


def many(count):
    """A stream unit that gives ``count`` values for one, an event each."""

    def process(ctx):
        done = ctx.state.get("done", 0)
        ctx.emit([done])
        ctx.state["done"] = done + 1
        if done + 1 < count:
            ctx.send_event()

    return unit_of(process, kind=Kind.STREAM, name="many")


@pytest.mark.parametrize("options", [{}, {"is_inline": True}], ids=["threads", "inline"])
@pytest.mark.parametrize("how", ["infer", "exchange_many", "aexchange"])
def test_who_takes_everything_at_the_end_gets_more_than_results_may_wait(how, options):
    with Running(chain(many(20)), results_bound=8, **options) as flow:
        stream = flow.session()
        if how == "infer":
            found = stream.exchange({"input": 1}, 60)
        elif how == "exchange_many":
            (found,) = stream.exchange_many({"input": [1]}, 60).values()
        else:
            found = asyncio.run(stream.aexchange({"input": 1}, 60))
    assert [buffer.data for buffer in found] == list(range(20))
