"""Rates and shares between two moments."""

from collections import deque
from dataclasses import replace

import pytest

from modelflow.profile.interval import Interval
from modelflow.runtime.stats import FlowStats, Histogram, NodeStats
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import Running, graph_of, per_item


def node(**more):
    return NodeStats("a", "unit", stage="a", threads=2, batch_size=8, capacity=32, **more)


FIRST = node(
    buffers=10, batch_sizes={2: 5}, busy=1.0, starved=2.0, seconds=20.0, closed={"full": 5}
)
SECOND = node(
    buffers=3010,
    batch_sizes={0: 1, 2: 5, 4: 750},
    busy=20.0,
    starved=2.6,
    blocked=0.2,
    order=0.1,
    seconds=40.0,
    queue=7,
    errors=3,
    failures={"ValueError": 3},
    closed={"full": 5, "nothing_waiting": 750},
    service=Histogram({100: 750}, 1.0),
)


def flow(time, one, **more):
    return FlowStats("f", time, time - 90.0, {"a": one}, **more)


def test_sums_become_rates_and_shares():
    found = Interval.between(
        flow(100.0, FIRST, requests={"ok": 1}),
        flow(110.0, SECOND, requests={"ok": 21, "failed": 5}, in_flight=3),
    )
    assert (found.seconds, found.requests, found.in_flight) == (10.0, {"ok": 20, "failed": 5}, 3)
    assert found.requests_per_second == 2.5
    (one,) = found.nodes
    assert (one.rows_per_second, one.mean_batch_size) == (300.0, 4.0)
    assert (round(one.busy, 6), round(one.starved, 6)) == (0.95, 0.03)
    assert (round(one.blocked, 6), round(one.order, 6)) == (0.01, 0.005)
    assert (one.queue, one.capacity, one.errors, one.failures) == (7, 32, 3, {"ValueError": 3})
    assert one.closed == {"nothing_waiting": 750}
    assert one.service.count == 750


def test_replicas_are_those_of_now_and_the_lost_ones_those_between():
    first = node(figures={"replicas": {"ready": 2, "starting": 0, "lost": 4}})
    second = node(figures={"replicas": {"ready": 1, "starting": 1, "lost": 6}})
    (one,) = Interval.between(flow(100.0, first), flow(110.0, second)).nodes
    assert one.replicas_text == "1 of 2 replicas, 2 lost"
    (one,) = Interval.between(flow(100.0, FIRST), flow(110.0, SECOND)).nodes
    assert one.replicas_text == ""


def test_nodes_behind_a_far_one_are_compared_as_others_over_all_replicas():
    first = node(replicas={"r": {"in": replace(FIRST, node="in")}})
    second = node(replicas={"r": {"in": replace(SECOND, node="in")}})
    (far,) = Interval.between(flow(100.0, first), flow(110.0, second)).nodes
    (one,) = far.inside
    assert (one.node, one.rows_per_second, round(one.busy, 6)) == ("in", 300.0, 0.95)
    (far,) = Interval.between(None, flow(110.0, second)).nodes
    assert far.inside[0].rows_per_second == 150.5


def test_since_the_beginning():
    found = Interval.between(None, flow(110.0, SECOND))
    assert found.seconds == 20.0
    assert found.nodes[0].rows_per_second == 150.5


def test_two_pictures_of_one_moment_have_no_rates():
    found = Interval.between(flow(100.0, FIRST), flow(100.0, FIRST))
    assert (found.requests_per_second, found.nodes[0].rows_per_second) == (0.0, 0.0)
    assert (found.nodes[0].busy, found.nodes[0].mean_batch_size) == (0.0, 0.0)


@pytest.mark.parametrize("inside", [1, 4, 9])
def test_littles_law_holds_of_a_load_that_stays_the_same(inside):
    """Tests Little's law: rows in progress are rate times latency (Oper. Res. 9, 1961)."""
    clock, took, times = FakeClock(), [0.25, 0.5, 1.25], 60
    graph = graph_of(
        {"input": "input", "a": per_item(abs), "output": "output"}, ["input -> a", "a -> output"]
    )
    with Running(graph, clock=clock, is_inline=True) as flow:
        sessions = deque(flow.session() for _ in range(inside))
        for step in range(inside):  # until the requests that began at the same time have ended
            clock.advance(took[step % 3])
            turn(sessions, flow)
        before = flow.scheduler.statistics()
        for step in range(times):
            clock.advance(took[step % 3])
            turn(sessions, flow)
        interval = Interval.between(before, flow.scheduler.statistics())
        for stream in sessions:
            stream.cancel()
    expected = interval.requests_per_second * interval.latency.mean
    assert interval.requests == {"ok": times}
    assert interval.in_flight == inside
    assert expected == pytest.approx(inside, rel=0.1)


def turn(sessions, flow):
    """Makes the oldest request end, and begins another."""
    assert sessions.popleft().exchange({"input": (1,)}, None)
    sessions.append(flow.session())


def test_a_flow_without_nodes_is_compared_with_the_earlier_moment_as_well():
    first = FlowStats(time=15.0, seconds=15.0, requests={"ok": 10})
    second = FlowStats(time=20.0, seconds=20.0, requests={"ok": 30})
    assert Interval.between(first, second).requests_per_second == pytest.approx(4.0)
