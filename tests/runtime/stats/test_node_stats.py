"""Tests of the counters of a node at one moment."""

from collections import Counter
from dataclasses import replace

import pytest

from modelflow.runtime.stats import GONE, Histogram, NodeStats, WorkerStats, node_stats
from tests.runtime.switches import switch_everywhere


def stats_of(*workers, now=10.0):
    return NodeStats.of("node", "unit", "stage", workers, now)


def test_the_counters_of_all_workers_are_added_up():
    one, other = WorkerStats(), WorkerStats()
    one.count(4, 1, 0.5)
    one.count(0, 0, 0.5)  # a call for an event
    other.count(4, 0, 1.0, 0.25)
    other.count_transfer(1, 16, 0.25)
    other.count_transfer(1, 48, 0.5)
    one.failures["ValueError"] += 1
    other.failures["ValueError"] += 1
    one.expired, other.expired = 2, 3
    stats = stats_of(one, other)
    assert (stats.node, stats.unit, stats.stage) == ("node", "unit", "stage")
    assert (stats.threads, stats.batches, stats.buffers, stats.errors) == (2, 3, 8, 1)
    assert (stats.busy, stats.moved, stats.moved_bytes, stats.expired) == (2.0, 2, 64, 5)
    assert stats.batch_sizes == {0: 1, 4: 2}
    assert stats.batch_seconds == {0: 0.5, 4: 1.5}
    assert stats.failures == {"ValueError": 2}
    assert stats.mean_batch_size == 4.0
    assert stats.row_seconds == 6.0
    assert (stats.service.count, stats.service.total) == (3, 2.0)
    assert (stats.wait.count, stats.wait.total) == (1, 0.25)


def test_a_node_that_was_never_called_has_no_mean():
    assert stats_of(WorkerStats()).mean_batch_size == 0


def test_what_is_not_over_counts_too():
    busy, starved, held, blocked, lent = workers = [WorkerStats() for _ in range(5)]
    for worker in workers:
        worker.since = 5.0
    busy.busy_since = 9.0
    starved.resting_since = 8.0
    held.resting_since, held.is_ordered = 7.0, True
    blocked.blocked_since = 6.0
    lent.resting_since, lent.busy_since = 5.0, 9.0  # another thread makes the worker's call
    stats = stats_of(*workers)
    assert stats.seconds == 25.0
    assert (stats.busy, stats.starved, stats.order, stats.blocked) == (2.0, 2.0 + 4.0, 3.0, 4.0)


def test_a_worker_that_has_ended_has_no_more_time():
    worker = WorkerStats()
    worker.since, worker.until = 2.0, 5.0
    assert stats_of(worker).seconds == 3.0


@pytest.mark.parametrize("starved", [1.0, 5.0])
def test_lent_calls_are_no_rest(starved):
    worker = WorkerStats()
    worker.starved, worker.lent = starved, 3.0
    assert stats_of(worker).starved == max(0.0, starved - 3.0)


def test_the_figures_of_two_processes_are_added_up():
    one = NodeStats(
        "n", "unit", "n", threads=2, batches=3, buffers=5, busy=1.0, capacity=8, batch_size=4,
        batch_sizes={1: 1, 2: 2}, closed={"full": 3}, figures={"batching": {"padding": 1}},
        service=Histogram({7: 3}, 1.0),
    )  # fmt: skip
    both = one + replace(one, batch_size=2, figures={"engine_calls": {2: 1}}, closed={"timeout": 1})
    assert (both.threads, both.batches, both.buffers, both.busy, both.capacity) == (
        4,
        6,
        10,
        2.0,
        16,
    )
    assert (both.batch_size, both.batch_sizes) == (4, {1: 2, 2: 4})
    assert both.closed == {"full": 3, "timeout": 1}
    assert both.figures == {"batching": {"padding": 1}, "engine_calls": {2: 1}}
    assert both.service == Histogram({7: 6}, 2.0)


def test_what_is_past_has_no_workers_and_no_queue():
    past = NodeStats("n", "unit", threads=2, queue=3, capacity=8, batches=5).past
    assert (past.threads, past.queue, past.capacity, past.batches) == (0, 0, 0, 5)


def far(replica, **more):
    return NodeStats("far", "remote", replicas={replica: {"n": NodeStats("n", "unit", **more)}})


def test_what_stands_behind_a_far_node_is_added_up_over_its_replicas():
    both = far("r", buffers=5, threads=1) + far("s", buffers=7, threads=2)
    assert set(both.replicas) == {"r", "s"}
    assert (both.inside["n"].buffers, both.inside["n"].threads) == (12, 3)
    assert NodeStats("n", "unit").inside == {}


def test_one_replica_of_two_processes_counts_once_and_those_that_are_gone_add_up():
    assert (far("r", buffers=5) + far("r", buffers=6)).inside["n"].buffers == 6
    assert (far(GONE, buffers=5) + far(GONE, buffers=6)).replicas[GONE]["n"].buffers == 11
    past = (far("r", buffers=5, queue=1) + far(GONE, buffers=6)).past
    assert [*past.replicas] == [GONE]
    assert (past.inside["n"].buffers, past.inside["n"].queue) == (11, 0)


def test_words_of_errors_are_left_out_behind_a_far_node_too():
    said = far("r", last_error="somebody's").without_words
    assert said.inside["n"].last_error == ""


@pytest.mark.parametrize("is_cleared", [True, False])
def test_a_call_that_ends_while_it_is_read_is_counted_once(is_cleared):
    found = []

    def make():
        worker = WorkerStats()
        worker.busy_since = 4.0

        def end():
            worker.count(1, 0, 5.0, start=4.0)
            if is_cleared:
                worker.busy_since = None

        return lambda: found.append(stats_of(worker).busy), end, lambda: None

    switch_everywhere(node_stats, make)
    assert set(found) == {5.0, 6.0}


def test_rows_in_calls_count_only_while_the_calls_run():
    inside, over = WorkerStats(), WorkerStats()
    inside.size, inside.busy_since = 4, 9.0
    over.size = 8
    stats = stats_of(inside, over)
    assert (stats.calling, stats.past.calling, (stats + stats).calling) == (4, 0, 8)


def test_the_time_of_the_last_error_of_each_kind_is_the_latest_of_all_workers():
    one, other = WorkerStats(), WorkerStats()
    one.note_failures(Counter({"ValueError": 1}), "a", 3.0)
    one.note_failures(Counter({"OSError": 1}), "b", 4.0)
    other.note_failures(Counter({"ValueError": 2}), "c", 5.0)
    times = {"ValueError": 5.0, "OSError": 4.0}
    stats = stats_of(one, other)
    assert stats.failed_at == times
    assert (stats_of(one) + stats_of(other)).failed_at == times
    assert stats.without_words.failed_at == times
