"""Tests that a stop ends streams that run by themselves, and leaves nothing."""

import logging
import threading

import pytest

from modelflow.errors import FlowFailed
from modelflow.unit.kind import Collapse, Condition, Expand, Stream
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, graph_of, spec_of, unit_of
from tests.runtime.test_scheduler import Gate


def stopped(flow, clock, *steps):
    """Stops a flow on another thread, and advances its clock by ``steps`` seconds meanwhile."""
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
    assert flow.scheduler.count_held() == {}
    return failures


def test_stop_while_a_node_gathers_a_batch_ends_every_thread():
    clock = FakeClock()
    settings = {"batch_size": 8, "batch_timeout_ms": 300, "threads": 2}
    flow = Running(chain((spec_of(), settings)), clock=clock)
    flow.scheduler.start()
    stream = flow.session()
    stream.send("input", 1)
    clock.until_sleeping(2)  # the watchdog, and the worker that waits for a fuller batch
    flow.scheduler.stop(drain=False)
    assert flow.scheduler.count_held() == {}


def posting(calls, *, delay=0.0, is_emitting=False):
    """Returns a stream unit that sends itself events for ever."""

    def process(ctx):
        calls.release()
        if is_emitting:
            ctx.emit([len(ctx.input())])
        ctx.send_event(True, delay)

    return unit_of(process, kind=Stream(), name="posting")


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
    assert calls.acquire(timeout=60)  # the delayed event
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
    assert flow.scheduler.count_held() == {}


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
    assert said == ["flow 'test': no unit finished a call for 2 s; the rest is dropped"]


def test_a_forced_stop_keeps_nothing_of_any_session():
    gate = Gate()

    def same(ctx):
        ctx.emit([buffer.data for buffer in ctx.input()])

    specs = [
        (spec_of(), {"threads": 2}),
        unit_of(same, kind=Stream()),
        unit_of(same, kind=Expand()),
        unit_of(same, kind=Collapse()),
        (gate.spec(), {"threads": 2, "batch_size": 1}),
    ]
    flow = Running(chain(*specs))
    flow.scheduler.start()
    streams = [flow.session() for _ in range(5)]
    for stream in streams:
        for i in range(10):
            stream.send("input", i)
    gate.entered.acquire()
    assert flow.scheduler.count_held() != {}
    gate.open.set()
    flow.scheduler.stop(drain=False)
    held = flow.scheduler.count_held()
    held.pop("sessions", None)
    assert held == {}


def test_a_session_that_is_cancelled_leaves_nothing_behind_where_branches_meet():
    gate = Gate()

    def part(ctx):
        for buffer in ctx.input():
            ctx.emit([buffer.data], "out" if buffer.data % 2 else "other")

    nodes = {
        "input": "input",
        "part": unit_of(part, outputs=("out", "other"), kind=Condition()),
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
        assert flow.scheduler.count_held() == {}
