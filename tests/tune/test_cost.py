"""Tests of the costs of stages, computed from measurements."""

import pytest

from modelflow.insight.tune.cost import StageCost, costs_of
from tests.doctor.cases import case_of, node, times


def test_near_a_line_the_line_is_taken_and_else_the_table():
    line = StageCost("a", 1.0, {1: 0.011, 2: 0.012, 8: 0.018})
    assert line.seconds(4) == pytest.approx(0.014)
    assert line.seconds(16) == pytest.approx(0.026)
    steps = StageCost("a", 1.0, {1: 0.01, 2: 0.01, 4: 0.01, 8: 0.04})
    assert steps.seconds(4) == pytest.approx(0.01)
    # the step's position is unknown, and the value above is safe
    assert steps.seconds(5) == pytest.approx(0.04)
    assert steps.seconds(16) == pytest.approx(0.08)
    assert StageCost("a", 1.0, {4: 0.1}).seconds(2) == pytest.approx(0.1)
    assert StageCost("a", 1.0, {}).seconds(2) == 0.0


def case(waiting, running, size, seconds):
    return case_of(
        node(
            "a",
            busy=1.0,
            starved=0.0,
            on_core=running,
            runnable=1.0 - running - waiting,
            calls={size: (100, 100 * seconds)},
            service=times(ms10=100),
        )
    )


def test_each_size_counts_where_it_was_asked_for_without_what_others_took():
    sweep = {1: case(0.5, 0.5, 1, 0.01), 2: case(0.5, 0.25, 2, 0.04)}
    found = costs_of(sweep, sweep[1], sweep[1], {"a": 3.0})["a"]
    assert found.table == pytest.approx({1: 0.01, 2: 0.03})
    assert (found.visits, found.is_locked) == (3.0, False)
    assert found.computing == pytest.approx(0.5)
    assert sum(p * q for p, q in zip((0.8, 0.18, 0.02), found.spread, strict=True)) == (
        pytest.approx(1.0)
    )


def test_what_waits_more_with_more_threads_has_waited_for_a_lock():
    alone = case(0.05, 0.95, 1, 0.01)
    assert costs_of({1: alone}, alone, case(0.5, 0.5, 1, 0.02), {"a": 1.0})["a"].is_locked
    assert not costs_of({1: alone}, alone, case(0.1, 0.5, 1, 0.02), {"a": 1.0})["a"].is_locked
    sleeping = case(0.95, 0.05, 1, 0.01)  # the node waits anyway
    assert not costs_of({1: sleeping}, sleeping, sleeping, {"a": 1.0})["a"].is_locked
