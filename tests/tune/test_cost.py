"""Tests of the costs of stages, computed from measurements."""

import math

import pytest

from modelflow.insight.tune.cost import INTERPRETER, StageCost, costs_of
from tests.doctor.cases import SECONDS, case_of, node, times


def test_near_a_line_the_line_is_taken_and_else_the_table():
    line = StageCost("a", 1.0, {1: 0.011, 2: 0.012, 8: 0.018})
    assert line.seconds(4) == pytest.approx(0.014)
    assert line.seconds(16) == pytest.approx(0.026)
    steps = StageCost("a", 1.0, {1: 0.01, 2: 0.01, 4: 0.01, 8: 0.04})
    assert steps.seconds(4) == pytest.approx(0.01)
    # the step's position is unknown, and the value above is safe
    assert steps.seconds(5) == pytest.approx(0.04)
    # beyond the table, the slope of the line counts
    assert steps.seconds(16) == pytest.approx(0.0755, abs=1e-4)
    assert StageCost("a", 1.0, {4: 0.1}).seconds(2) == pytest.approx(0.1)
    assert StageCost("a", 1.0, {}).seconds(2) == 0.0


def case(waiting, running, size, seconds, threads=1, busy=1.0, **more):
    stages = {}
    for name, each in {"a": seconds, **more}.items():
        count = round(SECONDS * threads * busy / each)
        stages[name] = {size: (count, count * each)}
    return case_of(
        *(
            node(
                name,
                threads,
                busy=busy,
                starved=1.0 - busy,
                on_core=running * busy,
                runnable=(1.0 - running - waiting) * busy,
                calls=found,
                rows=sum(rows * count for rows, (count, _) in found.items()),
                service=times(ms10=100),
            )
            for name, found in stages.items()
        )
    )


def cost(*cases, calm=None):
    return costs_of(cases, {"a": 3.0, "b": 1.0}, calm)["a"]


def test_each_size_counts_without_the_time_that_others_had_the_processors():
    found = cost(case(0.5, 0.5, 1, 0.01), case(0.5, 0.25, 2, 0.04))
    assert found.table == pytest.approx({1: 0.01, 2: 0.03})
    assert (found.visits, found.lock, found.at_once) == (3.0, "", math.inf)
    assert found.computing == pytest.approx(0.5)
    assert sum(p * q for p, q in zip((0.8, 0.18, 0.02), found.spread, strict=True)) == (
        pytest.approx(1.0)
    )


def test_what_waits_more_with_more_threads_has_waited_for_the_interpreter():
    alone = case(0.05, 0.95, 1, 0.01)
    assert cost(alone, case(0.5, 0.5, 1, 0.02, 2)).lock == INTERPRETER
    assert cost(alone, case(0.1, 0.5, 1, 0.02, 2)).lock == ""
    sleeping = case(0.95, 0.05, 1, 0.01)  # the node waits anyway
    assert cost(sleeping, case(0.95, 0.05, 1, 0.01, 2)).lock == ""


@pytest.mark.parametrize(
    ("seconds", "threads", "busy", "at_once"),
    [
        (0.01, 2, 1.0, math.inf),  # each call takes as long as alone
        (0.02, 2, 1.0, 1.0),  # a device
        (0.04, 8, 1.0, 2.0),  # two connections
        (0.02, 2, 0.5, math.inf),  # the threads were idle at times, so more calls may be possible
    ],
)
def test_calls_that_take_longer_with_more_threads_run_a_few_at_a_time(
    seconds, threads, busy, at_once
):
    alone = case(0.95, 0.05, 1, 0.01)
    found = cost(alone, case(0.95, 0.05, 1, seconds, threads, busy))
    assert found.at_once == pytest.approx(at_once)
    assert found.table == pytest.approx({1: 0.01})


def test_calls_that_do_not_end_while_others_pass_an_unfair_lock_have_waited_as_well():
    alone = case(0.95, 0.05, 1, 0.01)
    ended = {1: (2000, 20.0)}  # two of eight threads, whose calls take as long as alone
    unfair = case_of(node("a", 8, busy=1.0, on_core=0.05, calls=ended, rows=2000))
    assert cost(alone, unfair).at_once == pytest.approx(2.0)
    # eight calls of 9 s: the second one of each thread would have ended soon after
    long, ended = case(0.95, 0.05, 1, 9.0), {1: (8, 72.0)}
    free = case_of(node("a", 8, busy=1.0, on_core=0.05, calls=ended, rows=8))
    assert cost(long, long, long, free).at_once == math.inf


def test_the_most_threads_that_were_at_work_decide():
    cases = [case(0.95, 0.05, 1, seconds, n) for n, seconds in ((1, 0.01), (2, 0.01), (8, 0.02))]
    assert cost(*cases).at_once == pytest.approx(4.0)


def test_time_without_a_processor_is_no_wait_for_a_device():
    alone = case(0.0, 1.0, 1, 0.01)
    assert cost(alone, case(0.0, 0.5, 1, 0.02, 2)).at_once == math.inf


def test_stages_that_wait_for_each_other_share_a_device():
    calm, busy = case(0.95, 0.05, 1, 0.05, b=0.05), case(0.95, 0.05, 1, 0.1, b=0.1)
    found = costs_of([busy], {"a": 1.0, "b": 1.0}, calm)
    assert {one.lock for one in found.values()} == {"shared"}
    assert found["a"].table == pytest.approx({1: 0.05})
    single = costs_of([case(0.95, 0.05, 1, 0.1, b=0.05)], {"a": 1.0, "b": 1.0}, calm)
    assert {one.lock for one in single.values()} == {""}
    # each alone would use a device all the time, so the two have none in common
    calm, busy = case(0.95, 0.05, 1, 0.08, b=0.08), case(0.95, 0.05, 1, 0.1, b=0.1)
    assert costs_of([busy], {"a": 1.0, "b": 1.0}, calm)["a"].lock == ""
