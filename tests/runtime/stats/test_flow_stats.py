"""The figures of a whole flow: how its requests ended, what its workers' time went to."""

import threading

import pytest

from modelflow.errors import Cancelled, QueueFullError
from modelflow.runtime.stats import FlowStats, NodeStats, RequestStats
from modelflow.stream_io.request import Request, submit
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, chain, unit_of


def test_it_is_a_mapping_of_nodes():
    node = NodeStats("a", "unit")
    stats = FlowStats(nodes={"a": node})
    assert (stats["a"], list(stats), len(stats), "b" in stats) == (node, ["a"], 1, False)


def test_requests_are_counted_by_how_they_ended_those_that_ran_with_their_time():
    stats = RequestStats()
    assert stats.outcomes() == {}
    stats.ok += 2
    stats.count("ok", 1, 1.0)
    stats.count("failed", 2, 3.0)
    stats.count("cancelled", 5, 100.0)
    assert stats.outcomes() == {"ok": 3, "failed": 2, "cancelled": 5}
    latency = stats.latencies.histogram()
    assert (latency.count, latency.total) == (3, 7.0)


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
        flow.session().exchange({"input": [2, 4, 5]})  # one of three fails: so does the request
        late = flow.session()
        late.exchange({"input": [2]}, deadline=-1.0)
        gone = flow.session()
        gone.send("input", 2)
        gone.cancel()
        with pytest.raises(Cancelled):
            gone.recv("output")
        flow.session().close_input()  # nothing was sent: no request
        stats = flow.scheduler.statistics()
    assert stats.requests == {"ok": 3, "failed": 3, "expired": 1, "cancelled": 1}
    assert stats.latency.count == 7
    node = flow.scheduler.statistics()["n0"]  # a worker may have held the cancelled row until now
    assert (node.errors, node.failures, node.expired) == (3, {"ValueError": 3}, 1)
    assert node.buffers + node.dropped == 10


def test_requests_of_one_row_count_each():
    ended = []
    with Running(chain(unit_of(odd)), is_inline=True) as flow:
        made = [Request({"input": [value]}, ended.append) for value in range(7)]
        submit(flow.scheduler, made)
        flow.scheduler.pump()
        stats = flow.scheduler.statistics()
    assert len(ended) == 7
    assert stats.requests == {"ok": 4, "failed": 3}


def test_a_refused_row_is_a_request_that_was_rejected():
    entered, go_on = threading.Event(), threading.Event()

    def wait(ctx):
        entered.set()
        go_on.wait(60)
        ctx.emit(ctx.input())

    attributes = {"threads": 1, "batch_size": 1, "queue_size": 1, "queue_policy": "reject"}
    with Running(chain((unit_of(wait), attributes))) as flow:
        stream = flow.session()
        stream.send("input", 1)
        entered.wait(60)
        stream.send("input", 2)
        with pytest.raises(QueueFullError):
            stream.send("input", 3)
        stats = flow.scheduler.statistics()
        assert (stats.requests, stats.in_flight) == ({"rejected": 1}, 1)
        assert (stats["n0"].queue, stats["n0"].capacity) == (1, 1)
        go_on.set()


def test_the_time_of_a_worker_is_in_calls_for_want_of_rows_or_of_room():
    clock, calls = FakeClock(), []

    def slow(ctx):
        clock.advance(1.0)
        calls.append(flow.scheduler.statistics())
        ctx.emit(ctx.input())

    attributes = {"threads": 1, "batch_size": 1, "queue_size": 1}
    graph = chain(
        (unit_of(lambda ctx: ctx.emit(ctx.input())), attributes), (unit_of(slow), attributes)
    )
    with Running(graph, clock=clock) as flow:
        flow.session().exchange({"input": list(range(8))})
    stats = flow.scheduler.statistics()
    assert stats["n1"].busy == stats["n1"].seconds == stats.seconds == 8.0
    assert (stats["n1"].starved, stats["n1"].blocked) == (0.0, 0.0)
    first = stats["n0"]
    assert first.starved + first.blocked + first.busy <= first.seconds == 8.0
    assert first.blocked > 0
    assert [one["n1"].busy for one in calls] == [float(n) for n in range(1, 9)]  # open calls too
    assert stats["n1"].closed == {"full": 8}
    assert stats["n1"].wait.count == 8
