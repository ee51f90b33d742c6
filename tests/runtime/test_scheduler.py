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
from modelflow.unit.kind import Stream
from modelflow.unit.unit import FlowUnit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of


def add_one(x):
    if x == "bad":
        raise ValueError("is bad")
    return x + 1


class Gate:
    """A unit that waits inside ``process`` until the test opens the gate."""

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
        assert flow.infer(1).data == 2  # other sessions are not blocked
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
                stream.recv(errors="return")
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


# -- rejected input --------------------------------------------------------------------------


def test_a_flow_of_another_process_is_refused_and_left_alone():
    with Running(chain(spec_of()), is_inline=True) as flow:
        flow.scheduler.check_process()
        flow.scheduler.disown()
        with pytest.raises(StreamClosed, match="make the Flow after the fork"):
            flow.scheduler.check_process()
        flow.scheduler.stop()
        assert not flow.scheduler.is_stopped
        flow.scheduler.is_foreign = False


# -- stopping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("drain", [True, False])
def test_a_second_stop_cuts_the_first_one_short_only_where_it_does_not_drain(drain):
    def hold(ctx):
        ctx.hold()
        ctx.emit([buffer.data for buffer in ctx.input()])

    clock = FakeClock()
    unit = unit_of(hold, kind=Stream())
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


@pytest.mark.parametrize(
    "given", [{}, {"drain": True}, {"drain": False}, {"drain": False, "timeout": 2.0}]
)
def test_a_stop_that_is_asked_for_is_made_elsewhere_and_raises_nothing_there(given, monkeypatch):
    scheduler, calls = Running(chain(spec_of()), is_inline=True).scheduler, []

    def stop(drain, timeout):
        calls.append((drain, timeout))
        raise FlowFailed("no good", [ValueError("bad")])

    monkeypatch.setattr(scheduler, "stop", stop)
    monkeypatch.setattr("_thread.start_new_thread", lambda function, args: function(*args))
    scheduler.request_stop(**given)
    assert calls == [(given.get("drain", True), given.get("timeout"))]
