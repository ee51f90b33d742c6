"""Tests of the unfinished sessions of a flow."""

import threading
from types import SimpleNamespace

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, FlowUnitError, StreamClosed
from modelflow.stream_io.request import Request, submit
from tests.runtime.entry.test_submitter import Caller, Full
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, fed_by_a_source, graph_of, spec_of, unit_of
from tests.runtime.test_scheduler import counting_source


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


def test_a_session_that_was_dropped_is_ended_and_named_when_the_next_one_is_made(caplog):
    with Running(chain(spec_of()), is_inline=True) as flow:
        first, second = flow.scheduler.create_session(), flow.scheduler.create_session()
        flow.scheduler.submitter.close(second)
        for session in (first, second):
            session.results["output"].put([], False)
            flow.scheduler.drop(session)
        flow.scheduler.create_session()
        assert [s.results["output"].is_abandoned for s in (first, second)] == [True, True]
        assert first.progress.is_closed
    said = [r.getMessage() for r in caplog.records if "dropped" in r.getMessage()]
    assert said == ["session '0' was dropped without close_input(); its input ends now"]


def test_a_session_of_a_source_counts_until_it_is_over_and_leaves_it_its_errors():
    scheduler = fed_by_a_source()
    source = scheduler.sources["source"]
    opened = scheduler._sessions.open_for(source)
    assert (opened.name, opened.origin, opened.reader) == ("source/0", "source", source.progress)
    assert scheduler._sessions.open_for(source).name == "source/1"
    assert (scheduler._sessions.opened_by_sources, scheduler.count_held()["sessions"]) == (2, 3)
    opened.progress.record_errors([Buffer.from_error(FlowUnitError("no good"))])
    opened.cancel()
    assert (scheduler._sessions.opened_by_sources, scheduler.count_held()["sessions"]) == (1, 2)
    assert [str(error) for error in source.progress.errors] == ["no good"]


@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_session_that_a_source_opens_too_late_ends_for_the_same_reason(is_aborted):
    scheduler, reason = fed_by_a_source(), StreamClosed("it is over")
    source = scheduler.sources["source"]
    source.cancel(reason)
    if is_aborted:
        scheduler._ending.abort()
    opened = scheduler._sessions.open_for(source)
    assert opened.is_cancelled
    text = "flow 'test' is not running: it is new"
    assert str(opened.failure) == (text if is_aborted else "it is over")


def odd(ctx):
    """Fails for odd numbers."""
    ctx.emit([ValueError("odd") if one.data % 2 else one for one in ctx.input()])


@pytest.mark.parametrize("is_inline", [False, True])
def test_a_flow_knows_how_its_sessions_ended(is_inline):
    clock = FakeClock()
    graph = chain((unit_of(odd), {"batch_size": 4}))
    with Running(graph, is_inline=is_inline, clock=clock) as flow:
        for value in range(5):
            flow.session().exchange({"input": [value]})
        # one of three rows fails, and therefore the request
        flow.session().exchange({"input": [2, 4, 5]})
        late = flow.session()
        late.exchange({"input": [2]}, deadline=-1.0)
        gone = flow.session()
        gone.send("input", 2)
        gone.cancel()
        with pytest.raises(Cancelled):
            gone.recv("output")
        flow.session().close_input()  # nothing was sent, so no request counts
    # After the stop, because a request is counted after its reader has the result, and a worker may
    # have held the cancelled row until now.
    stats = flow.scheduler.statistics()
    assert stats.requests == {"ok": 3, "failed": 3, "expired": 1, "cancelled": 1}
    assert stats.latency.count == 7
    node = stats["n0"]
    assert (node.errors, node.failures, node.expired) == (3, {"ValueError": 3}, 1)
    assert node.buffers + node.expired + node.dropped == 10


@pytest.mark.parametrize("rows", [1, 2])
def test_requests_that_share_a_session_count_each_by_how_they_ended(rows):
    """Tests that only the requests in error that were cancelled count as cancelled."""
    told = []
    with Running(chain(unit_of(odd)), is_inline=True) as flow:
        made = [Request({"input": [value] * rows}, told.append) for value in range(7)]
        made += [Request({"input": [value] * rows}, told.append, deadline=-1.0) for value in (0, 1)]
        made[1].cancel()
        made[2].cancel()
        for group in (made, [Request({"input": [8] * rows}, told.append) for _ in range(3)]):
            submit(flow.scheduler, group)
            flow.scheduler.pump()
        stats = flow.scheduler.statistics()
    assert len(told) == 12
    assert stats.requests == {"ok": 6, "cancelled": 2, "failed": 2, "expired": 2}
    assert stats.latency.count == 10


def test_requests_that_share_a_session_are_all_cancelled_with_it():
    told, entered, go_on = [], threading.Event(), threading.Event()

    def wait(ctx):
        entered.set()
        go_on.wait(60)
        ctx.emit(ctx.input())

    with Running(chain((unit_of(wait), {"threads": 1, "batch_size": 1}))) as flow:
        submit(flow.scheduler, [Request({"input": [value]}, told.append) for value in range(3)])
        assert entered.wait(60)
        (session,) = flow.scheduler._sessions.known
        flow.scheduler.cancel(session)
        go_on.set()
    assert (len(told), flow.scheduler.statistics().requests) == (3, {"cancelled": 3})


def test_who_records_is_asked_of_each_session_when_it_is_opened_by_a_source_too():
    asked = []

    class Recorder:
        def watcher(self, name, began, leave):
            asked.append((name, began))
            return SimpleNamespace(over=None, leave=leave)

    clock = FakeClock()
    scheduler = fed_by_a_source(clock=clock)
    scheduler._sessions.recorder = Recorder()
    clock.advance(5.0)
    opened = scheduler._sessions.open_for(scheduler.sources["source"])
    assert asked == [("source/0", clock.now())]
    assert opened.watcher.leave == opened.unwatch
    with Running(chain(spec_of()), is_inline=True, clock=clock) as flow:
        flow.scheduler._sessions.recorder = Recorder()
        session = flow.scheduler.create_session()
    assert asked[1:] == [(session.name, clock.now())]


def test_a_session_lasts_from_its_opening_to_its_end():
    clock = FakeClock()
    with Running(chain(spec_of()), is_inline=True, clock=clock) as flow:
        for seconds in (2.0, 3.0):
            stream = flow.session()
            clock.advance(seconds)
            stream.exchange({"input": [1]})
        assert flow.scheduler.statistics().latency.total == 5.0


def test_what_nobody_has_taken_counts_by_output():
    graph = graph_of({"input": "input", "a": "output", "b": "output"}, ["input -> a", "input -> b"])
    with Running(graph, is_inline=True) as flow:
        streams = [flow.session() for _ in range(2)]
        for stream in streams:
            stream.send("input", 1)
            stream.send("input", 2)
        streams[0].recv("a")
        assert flow.scheduler.statistics().unread == {"a": 3, "b": 4}


def test_a_send_says_whether_the_flow_or_its_user_has_closed_the_input():
    with Full() as full:
        full.other.close_input()
        _, caller = full.sender()
        stopping = Caller(full.flow.scheduler.stop)
        assert "the flow was stopped" in str(caller.join())
        with pytest.raises(StreamClosed, match="its end was sent"):
            full.other.send("input", 3)
        full.gate.open.set()
        assert stopping.join() is None
