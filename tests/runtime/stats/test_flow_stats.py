"""Tests of the statistics of a flow: how requests ended, and how workers spent their time."""

import threading

import pytest

from modelflow.errors import QueueFullError
from modelflow.runtime.stats import FlowStats, NodeStats, RequestStats
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
