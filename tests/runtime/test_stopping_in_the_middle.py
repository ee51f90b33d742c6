"""Tests of stops in the middle of other operations."""

import contextlib
import signal
import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, EndOfStream, StreamClosed
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.runtime.locks import make_lock
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.results import Results
from modelflow.stream_io import StreamIO
from modelflow.unit import kind as kinds
from modelflow.unit.kind import Stream
from modelflow.unit.unit import FlowUnit
from tests.alarms import repeat_until_alarm, untraced
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, unit_of


def counting_ends(ends):
    def process(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    return unit_of(process, kind=Stream(), hooks={"stream_end": lambda ctx: ends.append(1)})


def test_an_input_that_ended_with_its_last_value_does_not_end_again():
    ends = []
    with Running(chain((counting_ends(ends), {"threads": 1}))) as flow:
        stream = flow.session()
        submitter, session = flow.scheduler.submitter, stream._session
        submitter.send(session, "input", [Buffer(1)], is_last=True)
        submitter.close(session)  # as a draining stop at this very moment
        assert [buffer.data for buffer in stream] == [1]
    assert ends == [1]


def test_nothing_can_be_sent_behind_the_last_value_of_an_input():
    graph = graph_of(
        {"a": "input", "b": "input", "join": spec_of(inputs=("in", "b")), "output": "output"},
        ["a -> join:in", "b -> join:b", "join -> output"],
    )
    with Running(graph) as flow:
        stream = flow.session()
        submitter, session = flow.scheduler.submitter, stream._session
        submitter.send(session, "a", [Buffer(1)], is_last=True)
        with pytest.raises(StreamClosed, match="closed"):
            stream.send("a", 2)
        stream.send("b", 3)
        stream.close_input()
        assert stream.recv().data == 1
        with pytest.raises(EndOfStream):
            stream.recv(timeout=30)


def test_an_exchange_that_leaves_an_input_out_ends_with_errors_for_it():
    graph = graph_of(
        {"a": "input", "b": "input", "join": spec_of(inputs=("in", "b")), "output": "output"},
        ["a -> join:in", "b -> join:b", "join -> output"],
    )
    with Running(graph) as flow:
        (found,) = flow.session().exchange({"a": [1]}, 30)["output"]
    assert "input 'b' ended after 0 buffers" in str(found.error)


def test_results_that_come_behind_a_failure_are_dropped():
    results = Results()
    results.fail(StreamClosed("the flow has failed"))
    results.put([Buffer(1)], False)
    with pytest.raises(StreamClosed):
        results.get_nowait()


def test_asking_again_after_a_failure_does_not_lengthen_its_traceback():
    results = Results()
    results.fail(StreamClosed("the flow has failed"))
    lengths = []
    for _ in range(3):
        with pytest.raises(StreamClosed) as raised:
            results.get_nowait()
        lengths.append(len(raised.traceback))
    assert len(set(lengths)) == 1


def test_a_stop_that_drops_cuts_another_one_s_drain_short():
    entered, gate = threading.Event(), threading.Event()

    def slow(x):
        entered.set()
        gate.wait()
        return x

    flow = Running(chain((per_item(slow), {"threads": 1, "batch_size": 1})), stop_timeout=90)
    flow.scheduler.start()
    stream = flow.session()
    for i in range(4):
        stream.send("input", i)
    assert entered.wait(30)
    draining = threading.Thread(target=flow.scheduler.stop, name="modelflow/test/drain")
    draining.start()
    while not flow.scheduler.is_draining:
        pass
    dropping = threading.Thread(
        target=flow.scheduler.stop, args=(False,), name="modelflow/test/drop"
    )
    dropping.start()
    with pytest.raises(StreamClosed):
        stream.recv(timeout=30)
    gate.set()
    draining.join()
    dropping.join()
    assert flow.scheduler.count_held() == {}


def test_a_session_that_a_source_opens_while_the_flow_is_cut_off_ends(monkeypatch):
    """Tests a session that opens after the sessions have been listed and before they are ended."""
    ended, called, gate, release = (threading.Event() for _ in range(4))

    class Source(FlowUnit):
        def process(self, ctx):
            if ctx.state.setdefault("is_second", False):
                called.set()
                assert gate.wait(30)
            ctx.open_session(1, on_end=ended.set if ctx.state["is_second"] else None)
            ctx.state["is_second"] = True

    spec = spec_of(Source, name="source", inputs=(), kind=kinds.Source(opens_sessions=True))
    sink = unit_of(lambda ctx: release.wait(30) and None, outputs=())
    flow = Running(graph_of({"source": spec, "sink": sink}, ["source -> sink"]))
    scheduler = flow.scheduler
    (source,) = scheduler.sources.values()
    cancel, close = type(source).cancel, scheduler._wiring.close

    def cancel_late(session, failure=None):
        if session is source:
            gate.set()
            ended.wait(2)
        return cancel(session, failure)

    def close_and_release():
        close()
        release.set()

    monkeypatch.setattr(type(source), "cancel", cancel_late)
    monkeypatch.setattr(scheduler._wiring, "close", close_and_release)
    scheduler.start()
    assert called.wait(30)
    scheduler.stop(drain=False)
    assert ended.is_set()
    assert scheduler.count_held() == {}


@pytest.mark.parametrize("drain", [True, False])
def test_a_unit_of_an_inline_flow_may_ask_for_its_end(drain):
    def asking(x):
        flow.scheduler.request_stop(drain)
        for _ in range(400):  # the stop begins while the unit is still being called
            if flow.scheduler.is_draining:
                break
            threading.Event().wait(0.005)
        return x

    flow = Running(chain(per_item(asking)), is_inline=True)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    assert flow.scheduler.wait(30)
    flow.scheduler.stop()
    assert flow.scheduler.is_stopped


def test_a_signal_handler_may_end_an_inline_source_that_never_would():
    calls = []

    def process(ctx):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGUSR1)
        ctx.emit([1])

    source = unit_of(process, inputs=(), name="source")
    sink = unit_of(lambda ctx: None, outputs=())
    flow = Running(graph_of({"source": source, "sink": sink}, ["source -> sink"]), is_inline=True)
    before = signal.signal(signal.SIGUSR1, lambda *_: flow.scheduler.request_stop())
    try:
        flow.scheduler.start()
        assert flow.scheduler.wait(30)
    finally:
        signal.signal(signal.SIGUSR1, before)
        flow.scheduler.stop()
    assert flow.scheduler.count_held() == {}


def test_an_inline_flow_is_used_by_one_thread_at_a_time():
    inside, most = [], []

    def watched(x):
        inside.append(x)
        most.append(len(inside))
        threading.Event().wait(0.001)  # lets the other threads run
        inside.remove(x)
        return x

    with Running(chain(per_item(watched)), is_inline=True) as flow:
        threads = [
            threading.Thread(
                target=lambda n=n: [flow.infer((n, i)) for i in range(20)],
                name=f"modelflow/test/{n}",
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 80


def test_ctrl_c_while_everyone_is_told_of_the_end_still_ends_every_thread(monkeypatch):
    flow = Running(chain(per_item(lambda x: x)))
    flow.scheduler.start()
    plain, calls = flow.scheduler._wiring.close, []

    def close():
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        plain()

    monkeypatch.setattr(flow.scheduler._wiring, "close", close)
    with pytest.raises(KeyboardInterrupt):
        flow.scheduler.stop()
    assert flow.scheduler.is_stopped
    assert not [t for t in threading.enumerate() if t.name.startswith("modelflow/test/n0")]


def test_a_unit_that_is_closed_is_left_alone_by_later_stops():
    calls = []

    class Noting(FlowUnit):
        def process(self, ctx):
            ctx.emit([b.data for b in ctx.input()])

        def close(self):
            calls.append("close")

        def interrupt(self):
            calls.append("interrupt")

    flow = Running(chain((spec_of(Noting), {"threads": 1})))
    flow.scheduler.start()
    flow.scheduler.stop()
    flow.scheduler.stop(drain=False)
    assert calls[-1] == "close"
    assert len(calls) == 2


def test_nothing_begins_when_the_flow_was_stopped_while_units_opened():
    done, opening, released = [], threading.Event(), threading.Event()

    def opens(self, config):
        opening.set()
        released.wait(30)

    def process(ctx):
        ctx.finish()

    source = unit_of(
        process,
        inputs=(),
        hooks={"begin": lambda: done.append("begin"), "close": lambda: done.append("close")},
    )
    slow = type(
        "Slow",
        (FlowUnit,),
        {"open": opens, "interrupt": lambda self: released.set(), "process": lambda self, ctx: 0},
    )
    graph = graph_of(
        {"source": source, "slow": spec_of(slow), "output": "output"},
        ["source -> slow", "slow -> output"],
    )
    flow = Running(graph)
    starting = threading.Thread(target=flow.scheduler.start)
    starting.start()
    assert opening.wait(30)
    flow.scheduler.stop(drain=False)
    starting.join(30)
    assert not starting.is_alive()
    assert done == ["close"]


def test_what_is_closed_has_begun_before():
    done, beginning, released, closed = [], *(threading.Event() for _ in range(3))

    def begin():
        beginning.set()
        released.wait(30)
        closed.wait(0.2)  # in vain, because a unit is not closed during its start
        done.append("begin")

    def close():
        done.append("close")
        closed.set()

    source = unit_of(
        lambda ctx: ctx.hold(),
        inputs=(),
        hooks={
            "begin": begin,
            "interrupt": released.set,
            "close": close,
        },
    )
    flow = Running(graph_of({"source": source, "output": "output"}, ["source -> output"]))
    starting = threading.Thread(target=flow.scheduler.start)
    starting.start()
    assert beginning.wait(30)
    flow.scheduler.stop(drain=False)
    starting.join(30)
    assert done == ["begin", "close"]


def test_a_source_begins_on_its_own_thread_where_no_ctrl_c_comes():
    threads = []
    source = unit_of(
        lambda ctx: ctx.hold(),
        inputs=(),
        hooks={
            name: lambda *_: threads.append(threading.current_thread())
            for name in ("open", "begin", "close")
        },
    )
    with Running(graph_of({"source": source, "output": "output"}, ["source -> output"])) as flow:
        assert len(threads) == 2  # the unit has started when the flow has started
        flow.scheduler.stop(drain=False)
    assert threads == [threads[0]] * 3
    assert threads[0] is not threading.main_thread()


def test_who_waits_for_a_source_is_told_when_the_flow_never_starts():
    source = unit_of(lambda ctx: ctx.finish(), inputs=())
    flow = Running(graph_of({"source": source, "output": "output"}, ["source -> output"]))
    (session,) = flow.scheduler.sources.values()
    stream = StreamIO(flow.scheduler, session, is_owner=False)
    flow.scheduler.stop()
    with pytest.raises(StreamClosed):
        stream.recv(timeout=30)
    assert flow.scheduler.count_held() == {}


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_send_that_ctrl_c_breaks_off_in_the_middle_cancels_its_session(where, monkeypatch):
    with Running(chain(per_item(lambda x: x), max_in_flight=1)) as flow:
        torn, other = flow.session(), flow.session()
        with interrupted_append(where, monkeypatch), pytest.raises(KeyboardInterrupt):
            torn.send("input", 1)
        with pytest.raises(Cancelled):
            torn.recv(timeout=30)
        other.send("input", 2, timeout=30)
        other.close_input()
        assert [buffer.data for buffer in other] == [2]
        assert flow.scheduler.count_held() == {}


@pytest.mark.parametrize("where", ["before", "behind"])
def test_an_end_that_ctrl_c_breaks_off_in_the_middle_cancels_its_session(where, monkeypatch):
    with Running(chain(per_item(lambda x: x), max_in_flight=1)) as flow:
        torn = flow.session()
        with interrupted_append(where, monkeypatch), pytest.raises(KeyboardInterrupt):
            torn.close_input()
        with pytest.raises(Cancelled):
            torn.recv(timeout=30)
        assert flow.scheduler.count_held() == {}


@contextlib.contextmanager
def interrupted_append(where, monkeypatch):
    """Raises Ctrl-C in the append of a queue."""
    append = Inbox.append

    def interrupt(inbox, port, segments, handoff):
        if where == "behind":
            append(inbox, port, segments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Inbox, "append", interrupt)
        yield


def test_a_wait_that_ctrl_c_breaks_off_leaves_every_lock_to_its_holder():
    lock, errors, done = make_lock("scheduler"), [], threading.Event()
    condition, leisurely = threading.Condition(lock), threading.Event()

    def busy():
        while not done.is_set():
            try:
                with lock:
                    condition.notify_all()
                    leisurely.wait(0.0002)  # makes the woken thread wait for the lock
            except RuntimeError as error:  # another thread has released the lock
                errors.append(error)

    others = [threading.Thread(target=busy) for _ in range(2)]
    with untraced():
        for other in others:
            other.start()
        try:
            for _ in range(60):
                wait_until_interrupted(lock, condition)
        finally:
            done.set()
            for other in others:
                other.join()
    assert errors == []


def wait_until_interrupted(lock, condition):
    """Waits repeatedly until Ctrl-C arrives during a wait."""

    def wait():
        with lock:
            SYSTEM_CLOCK.wait(condition)

    with pytest.raises(KeyboardInterrupt):
        repeat_until_alarm(wait, 0.001, again=0.2)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_stop_while_the_threads_are_started_ends_every_one_of_them(is_first, monkeypatch):
    opened, closed, go = [], [], threading.Event()

    class Slow(FlowUnit):
        def open(self, config):
            go.wait()
            opened.append(self)

        def close(self):
            closed.append(self)

    graph = graph_of(
        {"input": "input", "slow": (spec_of(Slow), {"threads": 3}), "output": "output"},
        ["input -> slow", "slow -> output"],
    )
    scheduler = Running(graph).scheduler
    stopping = threading.Thread(target=scheduler.stop, args=(False,))
    start = scheduler._runner.start

    def stopped_meanwhile():
        if not is_first:
            start()
        stopping.start()
        if is_first:
            stopping.join()
            start()

    monkeypatch.setattr(scheduler._runner, "start", stopped_meanwhile)
    scheduler.start()
    assert stopping.is_alive() is not is_first
    go.set()
    stopping.join()
    assert len(opened) == len(closed) == (0 if is_first else 3)
    assert not any(thread.is_alive() for _, thread in scheduler._runner._running)
