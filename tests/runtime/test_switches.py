"""Tests that another thread may run at any step of a thread that holds no lock."""

import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError
from modelflow.profile import recording
from modelflow.runtime import session_registry
from modelflow.runtime.kinds.stream import by_session, session_queue
from modelflow.runtime.kinds.stream import worker as stream_worker
from modelflow.runtime.orders import fifo
from modelflow.runtime.session import session as sessions
from modelflow.runtime.session.request_batch import RequestBatch
from modelflow.runtime.session.segment import Batch, Span
from modelflow.runtime.stages import outbox as outboxes
from modelflow.runtime.stages import stage_stats
from modelflow.runtime.workers import watchdog, worker_report
from modelflow.unit.kind import Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, spec_of, unit_of
from tests.runtime.kinds.stream.test_by_session import begin, end
from tests.runtime.kinds.stream.test_by_session import order as by_session_order
from tests.runtime.orders.test_fifo import order as fifo_order
from tests.runtime.queues.test_inbox import segment, stream
from tests.runtime.session.test_session import ENDS
from tests.runtime.stages.test_stage_stats import stats_of
from tests.runtime.switches import switch_everywhere
from tests.runtime.workers.test_trace_buffer import Recorder


def streaming(recorder=None):
    """Returns a running flow with a stream unit, which runs on the calling thread."""
    spec = unit_of(lambda ctx: ctx.emit(ctx.input()), kind=Stream())
    flow = Running(chain((spec, {"threads": 1})), is_inline=True)
    flow.scheduler.start()
    flow.scheduler.record(recorder)
    return flow


def is_well(flow):
    return lambda: flow.scheduler.stop()


def test_a_recording_may_end_while_a_worker_notes_a_call():
    def make():
        flow = streaming(Recorder())
        return lambda: flow.infer(1), lambda: flow.scheduler.record(None), is_well(flow)

    switch_everywhere(worker_report, make)


def test_a_recording_may_end_while_a_session_is_made():
    def make():
        flow = streaming(Recorder())
        return flow.scheduler.create_session, lambda: flow.scheduler.record(None), is_well(flow)

    switch_everywhere(session_registry, make)


def test_a_watcher_may_leave_while_a_call_is_reported():
    watcher = SimpleNamespace(on_call=lambda part: None, over=lambda: None)

    def make():
        flow = streaming()
        made = flow.session()
        made._session.watch(watcher)
        own = lambda: made.exchange({"input": [1]})  # noqa: E731
        return own, lambda: made._session.unwatch(watcher), is_well(flow)

    switch_everywhere(stream_worker, make)


def test_the_next_queue_may_begin_to_take_segments_while_a_batch_is_sent():
    batches, segments = [], []

    def make():
        batches.clear()
        segments.clear()
        receiver = SimpleNamespace(
            append_whole=lambda batch, handoff: batches.append(batch),
            append=lambda port, more, handoff: segments.extend(more),
        )
        box = outboxes.Outbox([((receiver, 0),)], SimpleNamespace(call_due=lambda: None), 8)
        span = Span(stream(), range(1), False, 0)

        def refresh():
            receiver.append_whole = None
            box.refresh()

        def own():
            box.emit(Batch([span], [[Buffer(1)]], False), [[Buffer(1)]], False)

        return own, refresh, lambda: check_equal(len(batches) + len(segments), 1)

    switch_everywhere(outboxes, make, is_locked=True)


def check_equal(found, expected):
    assert found == expected


@pytest.mark.parametrize("ask", ["has_room", "room"])
def test_rows_of_the_first_class_may_be_taken_while_a_producer_looks_for_room(ask):
    def make():
        here, first, other = fifo_order(), stream("first"), stream("other")
        first.session.is_first = True
        for position in range(3):
            here.add(0, [segment(first, position, 1)])
        asked = {"has_room": (0, other.session), "room": (0,)}[ask]
        return lambda: getattr(here, ask)(*asked), lambda: here.cut(1), lambda: None

    switch_everywhere(fifo, make)


@pytest.mark.parametrize("module", [by_session, session_queue])
def test_streams_of_the_first_class_may_end_while_a_producer_looks_for_room(module):
    def make():
        here, first, other = by_session_order(), stream("first"), stream("other")
        first.session.is_first = True
        here.add(0, [segment(first, 0, 1, is_last=True), segment(other, 0, 1)])
        batch = begin(here)

        def finish():
            end(here, batch)
            here.add(0, [segment(stream("third"), 0, 1)])

        return lambda: here.has_room(0, other.session), finish, lambda: None

    switch_everywhere(module, make)


def test_batches_may_close_while_the_rules_of_a_stage_change():
    def make():
        plan, inbox, stats = stats_of(is_noting=True)
        closed = inbox.stats.closed = Counter()

        def close():
            closed["full"] += 1

        def check():
            assert stats.nodes()[0].closed == {"full": closed["full"]}

        own = lambda: stats.go_by(replace(plan, batch_size=8), was_noting=True)  # noqa: E731
        return own, close, check

    switch_everywhere(stage_stats, make)


def test_two_threads_may_bring_the_first_errors_of_a_session():
    bad = [Buffer.from_error(FlowUnitError("no good"))]

    def make():
        batch = RequestBatch(1, ("a",))
        batch.board(None, [1, 1])
        made = sessions.Session(
            "7", "", ENDS, in_flight=None, on_finished=lambda _: None, request_batch=batch
        )
        own, other = (lambda row=row: made.spoil([row], bad) for row in range(2))
        return own, other, lambda: check_equal(made.spoilt, {0: False, 1: False})

    switch_everywhere(sessions, make)


def test_a_session_may_end_while_it_is_cancelled():
    def make():
        made = sessions.Session("7", "", ENDS, in_flight=None, on_finished=lambda _: None)
        found = []

        def check():
            assert made.is_finished
            assert (found, made.failure) == (
                [made.is_cancelled],
                (made.is_cancelled and LATE) or None,
            )

        return lambda: found.append(made.cancel(LATE)), made.progress.end_passed, check

    switch_everywhere(sessions, make)


LATE = Cancelled("too late")


def test_two_threads_may_ask_a_recording_for_the_buffer_of_one_worker(tmp_path):
    flow = Running(chain(spec_of()), is_inline=True)

    def make():
        recorder = recording.Recording(flow.scheduler, tmp_path / "trace.json")
        found = []
        ask = lambda: found.append(recorder.ring("n0/0"))  # noqa: E731
        return ask, ask, lambda: check_equal(len({id(ring) for ring in found}), 1)

    switch_everywhere(recording, make)


def test_a_worker_may_leave_while_all_workers_are_woken():
    woken = []

    def leave():
        scheduler._workers.remove(workers[0])

    with Running(chain((spec_of(), {"threads": 1}), (spec_of(), {"threads": 1}))) as flow:
        scheduler, workers = flow.scheduler, list(flow.scheduler._workers)
        workers[0].wake = leave
        workers[1].wake = lambda: woken.append(1)
        scheduler._ending.abort()
        assert woken


class Slow:
    """A worker that has been in a call for a long time."""

    busy_since, phase, position = 0.0, "process", str
    at = SimpleNamespace(node="slow", spec=SimpleNamespace(name="slow"))
    stage = SimpleNamespace(inbox=SimpleNamespace(ready=0))


def test_a_worker_may_leave_while_the_watchdog_looks(caplog):
    class Leaves:
        @property
        def busy_since(self):
            workers.remove(self)

    workers = [Leaves(), Slow()]
    watchdog.Watchdog("f", workers, (), lambda: True, 1.0, FakeClock()).look()
    assert "node 'slow'" in caplog.text


def test_two_threads_that_need_the_scheduler_of_a_flow_get_the_same(monkeypatch):
    from modelflow import Flow, flowunit, plan

    @flowunit
    def same(value):
        return value

    graph = "digraph { a [type=input]; s [flowunit=same]; b [type=output]; a -> s -> b }"
    flow, found = Flow(graph, units=[same]), []
    other = threading.Thread(target=lambda: found.append(flow.scheduler))
    is_second, make_plan = threading.Event(), plan.make_plan

    def make(*given, **more):
        if threading.current_thread() is other:
            is_second.set()
        else:
            other.start()
            is_second.wait(0.2)  # gives the other thread the time to make another one
        return make_plan(*given, **more)

    monkeypatch.setattr(plan, "make_plan", make)
    found.append(flow.scheduler)
    other.join()
    assert found[0] is found[1]
