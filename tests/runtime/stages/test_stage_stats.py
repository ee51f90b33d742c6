"""Tests of the statistics of a stage with changing workers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from modelflow.plan import make_plan
from modelflow.runtime.stages.stage_stats import StageStats
from tests.runtime.fake_clock import FakeClock
from tests.runtime.graphs import chain, spec_of


def stats_of(threads=2, batch_size=4, is_noting=False):
    settings = {"threads": threads, "batch_size": batch_size}
    plan = make_plan(chain((spec_of(), settings))).stages["n0"]
    inbox: Any = SimpleNamespace(
        figures=dict,
        ready=6,
        is_noting=is_noting,
        stats=SimpleNamespace(closed={}),
        dropped=0,
        policy=SimpleNamespace(batch_timeout=0.0),
    )
    instances: Any = SimpleNamespace(plan=plan.unit, figures=dict, replicas=dict)
    return plan, inbox, StageStats(plan, inbox, [instances], FakeClock())


def test_what_a_worker_had_counted_stays_when_it_leaves():
    _, _, stats = stats_of()
    for counter in stats.workers:
        counter.since = 1000.0
        counter.count(4, 1, 0.5)
        counter.count(1, 0, 0.25)
        counter.until = 1002.0
    before = stats.nodes()[0]
    stats.drop_workers(1)
    after = stats.nodes()[0]
    assert len(stats.workers) == 1
    for name in ("buffers", "batches", "errors", "busy", "seconds", "closed", "batch_sizes"):
        assert getattr(after, name) == getattr(before, name), name
    assert stats.count_calls() == 4


def test_a_worker_that_comes_begins_with_nothing():
    _, _, stats = stats_of(threads=1)
    stats.add_workers(3)
    assert [counter.batches for counter in stats.workers] == [0, 0, 0]
    assert stats.nodes()[0].threads == 1  # as planned, until the plan changes


def test_why_batches_closed_is_told_by_the_rules_of_their_time():
    plan, inbox, stats = stats_of()
    stats.workers[0].count(4, 0, 0.5)
    stats.workers[0].count(1, 0, 0.5)
    assert stats.nodes()[0].closed == {"full": 1, "nothing_waiting": 1}
    wider = replace(plan, batch_size=16)
    stats.go_by(wider, was_noting=False)
    stats.workers[0].count(4, 0, 0.5)
    assert stats.nodes()[0].closed == {"full": 1, "nothing_waiting": 2}
    inbox.is_noting, inbox.stats.closed = True, {"timeout": 0}
    stats.go_by(wider, was_noting=False)
    inbox.stats.closed = {"timeout": 3}
    assert stats.nodes()[0].closed == {"full": 1, "nothing_waiting": 2, "timeout": 3}


def test_the_expected_wait_is_that_of_the_queue_at_the_rate_so_far():
    _, _, stats = stats_of()
    assert stats.estimate_wait() is None
    stats.workers[0].count(4, 0, 2.0)
    assert stats.estimate_wait() == pytest.approx(6 * 0.5 / 2)
