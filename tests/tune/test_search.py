"""Tests of the search for settings, compared with all possible settings."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelflow.insight.load.report import Sample
from modelflow.insight.tune.cost import StageCost
from modelflow.insight.tune.search import Goal, Search, enough_rows
from modelflow.insight.tune.settings import Settings, StageSettings
from modelflow.insight.tune.simulate import Outcome, simulate
from tests.example_counts import of_a_hundred

FREE = frozenset({"threads", "batch_size"})
MOST = {"a": 8, "b": 8}


def start_of(*names):
    return Settings({name: StageSettings(1, 1, 32) for name in names})


def test_a_goal_prefers_what_keeps_its_demand_then_what_it_wants():
    fast = Goal(99, 0.1)
    assert fast.score(10, 0.05) > fast.score(1000, 0.2) > fast.score(1000, 0.4)
    assert fast.score(20, 0.09) > fast.score(10, 0.01)
    assert Goal().score(20, 9.0) > Goal().score(10, 0.01)
    prompt = Goal(99, None, rate=100.0)
    assert prompt.score(100, 0.01) > prompt.score(100, 0.02) > prompt.score(80, 0.001)


@settings(max_examples=of_a_hundred(4), deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 0.03), st.floats(1e-4, 0.01)), min_size=2, max_size=2))
# Plenty of threads is no good place to begin here.
@example([(0.01171875, 0.005534882931764352), (0.03, 0.0006807513450074209)])
def test_the_best_of_a_small_grid_is_found_or_nearly(stages):
    costs = {
        name: StageCost(name, 1.0, {n: fixed + each * n for n in (1, 2, 4, 8)})
        for name, (fixed, each) in zip("ab", stages, strict=True)
    }

    def simulated(found):
        return simulate(costs, found, 2, clients=16, requests=200)

    start = start_of("a", "b")
    ranked = Search(costs, {"a": FREE, "b": FREE}, Goal(), simulated, 4, MOST).run(start)
    choices = [
        [
            replace(start.stages[n].with_batch(size, 32), threads=t)
            for size in (1, 2, 4, 8)
            for t in (1, 2, 3, 4)
        ]
        for n in "ab"
    ]
    best = max(simulated(Settings({"a": a, "b": b})).rate for a, b in itertools.product(*choices))
    assert ranked[0].rate >= 0.9 * best
    assert any(one.settings == start for one in ranked)


def test_nothing_changes_that_is_not_free():
    costs = {"a": StageCost("a", 1.0, {1: 0.01, 8: 0.02}), "b": StageCost("b", 1.0, {1: 0.01})}

    def simulated(found):
        return simulate(costs, found, 2, clients=16, requests=100)

    ranked = Search(costs, {"a": frozenset({"threads"})}, Goal(), simulated, 4, MOST).run(
        start_of("a", "b")
    )
    assert {one.settings.stages["b"] for one in ranked} == {StageSettings(1, 1, 32)}
    assert {one.settings.stages["a"].batch_size for one in ranked} == {1}


def test_of_what_is_as_good_the_smallest_comes_first():
    costs = {"a": StageCost("a", 1.0, {1: 0.01, 8: 0.01})}
    same = Outcome(100.0, Sample([0.01]))
    ranked = Search(costs, {"a": FREE}, Goal(), lambda _: same, 4, MOST).run(
        Settings({"a": StageSettings(4, 8, 32)})
    )
    assert ranked[0].settings == Settings({"a": StageSettings(1, 1, 32)})


@pytest.mark.parametrize("timeout", [0.0, 5.0])
def test_a_timeout_may_go(timeout):
    costs = {"a": StageCost("a", 1.0, {1: 0.01, 8: 0.011})}
    start = Settings({"a": StageSettings(1, 8, 32, timeout)})

    def simulated(found):
        return simulate(costs, found, 2, clients=1, requests=100)

    free = {"a": frozenset({"batch_timeout_ms"})}
    ranked = Search(costs, free, Goal(), simulated, 1, MOST).run(start)
    assert ranked[0].settings.stages["a"].batch_timeout_ms == 0.0
    assert len(ranked) == (2 if timeout else 1)


def search_of(costs, goal=None, most=64, clients=32):
    def simulated(found):
        return simulate(costs, found, 2, clients=clients)

    free = dict.fromkeys(costs, FREE)
    return Search(costs, free, goal or Goal(), simulated, 16, dict.fromkeys(costs, most))


def test_a_batch_that_was_never_seen_is_proposed_by_the_line_of_its_cost():
    costs = {"a": StageCost("a", 1.0, {1: 0.0305, 2: 0.031, 3: 0.0315}, at_once=1.0)}
    best = search_of(costs).run(start_of("a"))[0].settings.stages["a"]
    assert best.batch_size >= 16
    assert search_of(costs, most=4).run(start_of("a"))[0].settings.stages["a"].batch_size == 4


def test_threads_are_not_given_to_a_device_that_runs_one_call_at_a_time():
    costs = {
        "a": StageCost("a", 1.0, {1: 0.02}),
        "b": StageCost("b", 1.0, {1: 0.01, 2: 0.02, 4: 0.04}, at_once=1.0),
    }
    search = search_of(costs)
    best = search.run(start_of("a", "b"))[0].settings
    stages = search.reduce(best, start_of("a", "b")).stages
    assert stages["a"].threads in (2, 3)
    assert stages["b"] == StageSettings(1, 1, 32)


def test_a_change_is_reduced_to_the_values_that_bring_the_gain():
    costs = {
        "a": StageCost("a", 1.0, {1: 0.02}),
        "b": StageCost("b", 1.0, {1: 0.001}),
    }
    start = start_of("a", "b")
    much = Settings({"a": StageSettings(4, 8, 32), "b": StageSettings(16, 64, 128)})
    costs["a"] = StageCost("a", 1.0, {1: 0.02}, at_once=4.0)
    reduced = search_of(costs).reduce(much, start)
    assert start.changes_to(reduced) == {"a.threads": 4}


def test_a_search_that_is_over_returns_the_settings_that_it_knows():
    costs = {"a": StageCost("a", 1.0, {1: 0.02})}
    search = search_of(costs)
    search.is_over = lambda: True
    start = start_of("a")
    assert start in [one.settings for one in search.run(start)]
    assert len(search.run(start)) <= 3


@pytest.mark.parametrize(
    ("cost", "most", "seconds", "rows"),
    [
        (StageCost("a", 1.0, {1: 0.01, 2: 0.02}), 64, 1.0, 1),
        (StageCost("a", 1.0, {1: 0.01, 2: 0.01}), 64, 1.0, 64),
        (StageCost("a", 1.0, {1: 0.01, 2: 0.01}), 6, 1.0, 4),
        (StageCost("a", 1.0, {1: 0.11, 2: 0.12}), 64, 0.15, 4),
        (StageCost("a", 1.0, {1: 0.5}), 64, 0.1, 1),
    ],
)
def test_a_batch_is_enough_where_a_row_gets_no_cheaper(cost, most, seconds, rows):
    assert enough_rows(cost, most, seconds) == rows
