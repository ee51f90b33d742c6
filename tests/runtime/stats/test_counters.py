"""Tests of the counters that each worker keeps."""

import math

import pytest

from modelflow.runtime.stats.counters import WorkerStats
from modelflow.runtime.stats.histogram import ALL, EVERY, SHORT


def test_what_calls_cost_now_rises_at_once_and_falls_slowly():
    stats, costs = WorkerStats(), []
    assert stats.cost == math.inf
    for seconds in (1.0, 0.5, 2.0, 1.0):
        stats.count(1, 0, seconds)
        costs.append(stats.cost)
    assert costs == [1.0, 0.9375, 2.0, 1.875]


def test_calls_and_waits_go_into_their_histograms():
    stats = WorkerStats()
    stats.count(4, 0, 0.25, 0.5)
    stats.count(2, 0, 0.25)
    assert (stats.service.histogram().count, stats.waits.histogram().count) == (2, 1)
    assert stats.waits.histogram().mean == 0.5
    assert stats.batches == 2


@pytest.mark.parametrize(("seconds", "waited"), [(SHORT / 4, SHORT / 2), (SHORT / 4, 1.0)])
def test_short_calls_are_sampled_and_each_long_wait_counts(seconds, waited):
    stats, calls = WorkerStats(), ALL + 10 * EVERY + 1
    for _ in range(calls):
        stats.count(1, 0, seconds, waited)
    assert stats.service.histogram().count == calls - 1
    assert stats.waits.histogram().count == (calls if waited > SHORT else calls - 1)


def test_calls_made_while_its_own_thread_rests_are_lent():
    stats = WorkerStats()
    stats.count(1, 0, 1.0)
    stats.resting_since = 5.0
    stats.count(1, 0, 2.0)
    assert stats.lent == 2.0


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_rest_is_for_want_of_work_or_for_order(is_ordered):
    stats = WorkerStats()
    stats.end_rest(5.0)  # the worker has not rested
    stats.is_ordered, stats.resting_since = is_ordered, 5.0
    stats.end_rest(7.0)
    assert (stats.starved, stats.ordered) == ((0.0, 2.0) if is_ordered else (2.0, 0.0))
    assert stats.resting_since is None


def test_a_wait_for_room_is_added_once():
    stats = WorkerStats()
    stats.blocked_since = 5.0
    stats.end_block(7.0)
    stats.end_block(9.0)
    assert stats.blocked == 2.0
