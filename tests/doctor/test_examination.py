"""Tests of the examination of running flows.

The rates come from a `Laboratory` of the test, because measured rates depend on the machine's load.
"""

import threading

import pytest

import modelflow
from modelflow.insight.doctor import Cause, diagnose
from modelflow.insight.doctor import examination as examined
from modelflow.insight.doctor.examination import Examination
from modelflow.insight.doctor.experiments import Experiment
from tests.doctor.cases import case_of, node

GRAPH = "digraph { input [type=input] a [%s] output [type=output] input -> a -> output }"


def examine(monkeypatch, seen, gains, attributes="threads=1", **unit):
    """Returns the finding for an observation, if each cause's change has the given gain."""
    tried = []

    class Laboratory:
        notes, is_over = (), False

        def __init__(self, *_):
            pass

        def try_steps(self, cause, steps):
            if not steps:
                return None
            tried.append((str(cause), steps[0]))
            return Experiment(cause, steps[0], [100.0], [100.0 * (1 + gains.get(cause, 0.0))], 0.0)

    @modelflow.flowunit(**{"batched": True, **unit})
    def a(values):
        return values

    monkeypatch.setattr(examined, "Laboratory", Laboratory)
    monkeypatch.setattr(examined, "diagnose", lambda _: diagnose(seen))
    monkeypatch.setattr(examined.Case, "between", lambda *_, **__: seen)
    with modelflow.Flow(GRAPH % attributes, units=[a]) as flow:
        found, _ = Examination(flow, lambda _: False, 0.0, is_driven=True).run()
    return found, tried


def waiting(**more):
    return case_of(node("a", busy=0.98, on_core=0.02, **more), is_driven=True)


def test_the_change_that_gains_most_is_the_cause(monkeypatch):
    full = waiting(size=4, batch_size=4)
    gains = {Cause.SMALL_BATCH: 3.0, Cause.CAPACITY: 0.5}
    found, tried = examine(monkeypatch, full, gains, "threads=1, batch_size=4")
    (finding,) = found.findings
    assert (finding.node, finding.cause, finding.confidence) == ("a", Cause.SMALL_BATCH, "high")
    assert finding.change == {"a.batch_size": 16}
    assert (finding.gain, finding.is_measured) == (pytest.approx(3.0), True)
    assert [cause for cause, _ in tried] == ["small batch", "capacity"]


def test_calls_that_wait_and_gain_nothing_wait_for_something_of_which_there_is_one(monkeypatch):
    found, tried = examine(monkeypatch, waiting(), {})
    (finding,) = found.findings
    assert (finding.cause, finding.change) == (Cause.ONE_AT_A_TIME, {})
    assert ("capacity", {"a.threads": 2}) in tried


def test_python_code_that_gains_nothing_holds_the_interpreter_and_says_why_no_process_helps(
    monkeypatch,
):
    seen = case_of(node("a", busy=0.98, on_core=0.95), is_driven=True, cores=1.0, lock_wait=0.005)
    found, _ = examine(monkeypatch, seen, {})
    (finding,) = found.findings
    assert (finding.cause, finding.change) == (Cause.INTERPRETER_LOCK, {})
    assert "workers=process is not possible: unit 'a' cannot be made" in finding.evidence[-1]


def test_a_bound_outside_of_nodes_is_tried_first(monkeypatch):
    seen = case_of(node("a", busy=0.3, starved=0.7), is_driven=True, full=0.95)
    found, tried = examine(monkeypatch, seen, {Cause.IN_FLIGHT: 2.0})
    assert found.findings[0].cause == Cause.IN_FLIGHT
    assert tried == [("rows in flight", {"max_in_flight": 16})]
    found, _ = examine(monkeypatch, seen, {})
    (finding,) = found.findings
    assert (finding.cause, finding.change, finding.confidence) == (Cause.IN_FLIGHT, {}, "low")


@pytest.mark.parametrize(
    "seen",
    [
        case_of(node("a", busy=0.4, starved=0.6, errors=500, failures={"KeyError": 500})),
        case_of(node("a", busy=0.95, on_core=0.02, queue=1)),  # it keeps up
        case_of(node("a", rows=0)),
    ],
)
def test_nothing_is_tried_where_figures_are_exact_or_nothing_is_wrong(monkeypatch, seen):
    _, tried = examine(monkeypatch, seen, {})
    assert not tried


def test_a_running_flow_has_its_settings_again_after_the_experiments():
    @modelflow.flowunit
    def a(value):
        lock.acquire(timeout=0.002)
        return value

    lock = threading.Lock()
    lock.acquire()
    over = threading.Event()
    with modelflow.Flow(GRAPH % "threads=1, batch_size=2, queue_size=4", units=[a]) as flow:
        stream = flow.create_stream_io()

        def send():
            while not over.is_set():
                stream.send("input", 1)
            stream.close_input()

        sender = threading.Thread(target=send)
        reader = threading.Thread(target=lambda: list(stream))
        sender.start()
        reader.start()
        plan = flow.scheduler.plan
        try:
            Examination(flow, threading.Event().wait, 0.3, is_driven=True).run()
            after = flow.scheduler.plan
        finally:
            over.set()
            sender.join()
            reader.join()
    for one, other in zip(plan.stages.values(), after.stages.values(), strict=True):
        assert (one.threads, one.batch_size, one.bounds) == (
            other.threads,
            other.batch_size,
            other.bounds,
        )
