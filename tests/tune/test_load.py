"""Load on a flow: who waits for whom, what is counted, from when."""

import threading
import time

import pytest

import modelflow
from modelflow.tune.flow_target import FlowTarget
from modelflow.tune.load import Load, LoadReport

GRAPH = """digraph load { input [type=input] work [threads=2, batch_size=1, queue_size=2]
    output [type=output] input -> work -> output }"""


class Counted:
    """A unit that knows how many of its calls are under way, and the most that ever were."""

    def __init__(self, fails=False):
        self.most = self.now = 0
        lock = threading.Lock()

        @modelflow.flowunit
        def work(value):
            with lock:
                self.now += 1
                self.most = max(self.most, self.now)
            with lock:
                self.now -= 1
            if fails and value % 2:
                message = "odd"
                raise ValueError(message)
            return value

        self.unit = work


def requests(count=4):
    return [{"input": [value]} for value in range(count)]


def test_clients_wait_for_their_answers_and_all_that_was_sent_is_over_at_the_end():
    unit, marks = Counted(), []
    with modelflow.Flow(GRAPH, units=[unit.unit]) as flow:
        found = Load(FlowTarget(flow, requests())).closed(
            8, 0.2, settling=0.05, marked=lambda: marks.append(flow.stats())
        )
        stats = flow.stats()
    assert found.outcomes["ok"] == len(found.latencies) > 0
    assert found.latencies == sorted(found.latencies)
    assert found.rate == pytest.approx(len(found.latencies) / found.seconds)
    assert len(marks) == 2
    assert sum(stats.requests.values()) == stats.requests["ok"] == stats["work"].buffers
    assert stats.in_flight == 0
    assert unit.most <= 2


def test_what_fails_is_counted_and_no_latency():
    with modelflow.Flow(GRAPH, units=[Counted(fails=True).unit]) as flow:
        found = Load(FlowTarget(flow, requests())).closed(2, 0.1)
    assert found.outcomes["ValueError"] > 0
    assert found.outcomes["ok"] == len(found.latencies)


def test_requests_come_at_their_rate_whatever_is_answered():
    with modelflow.Flow(GRAPH, units=[Counted().unit]) as flow:
        found = Load(FlowTarget(flow, requests())).open(400.0, 1.0, seed=3)
    # 400 are due on average, with a standard deviation of 20.
    assert 300 <= found.outcomes["ok"] <= 500


def test_latency_counts_from_when_a_request_was_due_though_nobody_could_take_it():
    go_on = threading.Event()

    @modelflow.flowunit
    def work(value):
        go_on.wait(60)
        return value

    with modelflow.Flow(GRAPH, units=[work]) as flow:
        marks = []

        def marked():
            marks.append(time.monotonic())
            go_on.set()  # at the second mark, when the time is over, at the latest

        found = Load(FlowTarget(flow, requests())).open(1000.0, 0.0, settling=0.3, marked=marked)
        stats = flow.stats()
    assert len(marks) == 2
    assert not found.outcomes  # nothing had ended by then, and nothing counts behind it
    assert 0 < stats["work"].buffers < 100  # what found no room was never sent


def test_it_ends_when_it_is_told_to_and_gives_up_what_is_under_way():
    entered, go_on = threading.Event(), threading.Event()

    @modelflow.flowunit
    def work(value):
        entered.set()
        go_on.wait(60)
        return value

    def stop():
        entered.wait(60)
        load.stop()
        go_on.set()

    with modelflow.Flow(GRAPH, units=[work]) as flow:
        load = Load(FlowTarget(flow, requests()))
        stopper = threading.Thread(target=stop)
        stopper.start()
        found = load.closed(4, 600.0)
        stopper.join()
    assert found.seconds < 600
    assert not found.outcomes


def test_percentiles_are_those_of_the_sample():
    found = LoadReport(1.0, {"ok": 100}, [n / 100 for n in range(1, 101)])
    assert (found.percentile(50), found.percentile(99), found.percentile(100)) == (0.5, 0.99, 1.0)
    assert LoadReport(0.0, {}, []).percentile(99) == 0.0
    assert LoadReport(0.0, {}, []).rate == 0.0
