"""Tests of load on real flows."""

import threading

import numpy as np
import pytest

import modelflow
from modelflow.config.read import find_graph
from modelflow.errors import ConfigError, StreamClosed
from modelflow.insight.load.flow_target import FlowTarget
from modelflow.insight.load.load import run
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.target import Outcome
from tests.load.simulated import Simulated

ROWS = """digraph rows { input [type=input] work [threads=2, batch_size=4, queue_size=8]
    output [type=output] input -> work -> output }"""
SESSIONS = """digraph sessions { left [type=input] right [type=input] work [queue_size=4]
    output [type=output] left -> work:a right -> work:b work -> output }"""


class Work:
    """A unit that records its inputs."""

    def __init__(self):
        self.seen = []

        @modelflow.flowunit
        def work(value):
            self.seen.append(value)
            if value == 3:
                raise ValueError("three")
            return value

        self.unit = work


@modelflow.flowunit(name="work")
def added(a, b):
    """Adds two numbers."""
    if b < 0:
        raise ArithmeticError("negative")
    return a + b


def counted(number, **more):
    return LoadOptions(clients=5, requests=number, seconds=None, warm_up=0.0, **more)


def test_rows_go_in_turns_and_failures_have_the_name_of_what_was_raised():
    work = Work()
    with modelflow.Flow(ROWS, units=[work.unit]) as flow:
        target = FlowTarget(flow, [{"input": value} for value in range(4)])
        found = run(target, counted(40))
        stats, threads = flow.stats(), threading.active_count()
        again = run(target, counted(4))  # the same flow again, at once
        assert threading.active_count() == threads
    assert found.outcomes == {"ok": 30, "ValueError": 10}
    assert stats.requests == {"ok": 30, "failed": 10}
    assert again.outcomes == {"ok": 3, "ValueError": 1}
    assert sorted(work.seen) == sorted([*range(4)] * 11)
    assert found.latency.percentile(0) > 0
    assert found.target == "rows"


def test_a_graph_of_several_inputs_is_asked_in_sessions():
    rows = [{"left": 1, "right": 2}, {"left": 1, "right": -2}]
    with modelflow.Flow(SESSIONS, units=[added]) as flow:
        assert not flow.scheduler.is_row_by_row
        found = run(FlowTarget(flow, rows), counted(50))
        assert flow.stats().in_flight == 0
    assert found.outcomes == {"ok": 25, "ArithmeticError": 25}


def test_a_rate_beyond_the_room_of_the_queue_is_answered_whole():
    with modelflow.Flow(ROWS, units=[Work().unit]) as flow:
        options = LoadOptions(rate=1e5, requests=2000, seconds=None, warm_up=0, max_in_flight=2000)
        found = run(FlowTarget(flow, [{"input": 1}]), options)
        stats = flow.stats()
    assert found.outcomes == {"ok": 2000}
    assert sum(stats.requests.values()) == 2000


@pytest.mark.parametrize(
    ("graph", "rows"),
    [(ROWS, [{"input": np.ones(3)}]), (SESSIONS, [{"left": 1, "right": 1}])],
    ids=["rows", "sessions"],
)
def test_what_hangs_is_given_up_and_the_flow_goes_on(graph, rows):
    entered, go_on = threading.Event(), threading.Event()

    def held(*values):
        entered.set()
        go_on.wait(60)
        return values[0]

    @modelflow.flowunit(name="work")
    def one(value):
        return held(value)

    @modelflow.flowunit(name="work")
    def two(a, b):
        return held(a)

    class Held(Simulated):
        """A clock that advances when the first request is in the unit."""

        def wait(self, condition, timeout=None):
            return entered.wait(60) and super().wait(condition, timeout)

    clock = Held()
    options = LoadOptions(rate=10.0, seconds=1.0, warm_up=0.0, timeout=0.5, arrivals="constant")
    with modelflow.Flow(graph, units=[one if len(rows[0]) == 1 else two]) as flow:
        found = run(FlowTarget(flow, rows), options, clock=clock)
        go_on.set()
        after = run(FlowTarget(flow, rows), counted(3))
        flow.stop()
        stats = flow.stats()
    assert found.outcomes == {Outcome.TIMED_OUT: 10}
    assert after.outcomes == {"ok": 3}
    assert stats.requests["cancelled"] >= 9  # at least the requests that were not in the unit


def test_a_flow_that_ends_ends_the_load():
    with modelflow.Flow(ROWS, units=[Work().unit]) as flow:
        target = FlowTarget(flow, [{"input": 1}])
    with pytest.raises(StreamClosed):
        run(target, counted(1))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "rows: got no rows to send; expected at least one"),
        ([{"input": 1}, {"inptu": 1}], "rows: row 1 is for ['inptu']; expected ['input']"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, text):
    with pytest.raises(ConfigError) as caught:
        FlowTarget(modelflow.Flow(ROWS, units=[Work().unit]), rows)
    assert str(caught.value) == text


def test_a_graph_with_sources_is_refused():
    flow = modelflow.Flow(find_graph("digits"))
    with pytest.raises(ConfigError, match="digits: the graph has no inputs, so no requests"):
        FlowTarget(flow, [{}])
