"""What a node counts."""

import pytest

from modelflow.runtime.stats import NodeStats, QueueStats, WorkerStats


def test_the_counters_of_all_workers_are_added_up():
    one, other = WorkerStats(), WorkerStats()
    one.count(4, 1, 0.5)
    one.count(0, 0, 0.5)  # a call for an event
    other.count(4, 0, 1.0)
    other.count_transfer(1, 16)
    other.count_transfer(1, 48)
    stats = NodeStats.of("node", "unit", [one, other], 3)
    assert (stats.threads, stats.batches, stats.buffers, stats.errors) == (2, 3, 8, 1)
    assert (stats.busy, stats.queue, stats.moved, stats.moved_bytes) == (2.0, 3, 2, 64)
    assert stats.batch_sizes == {0: 1, 4: 2}
    assert stats.mean_batch_size == 4.0


def test_a_node_that_was_never_called_has_no_mean():
    assert NodeStats.of("node", "unit", [WorkerStats()], 0).mean_batch_size == 0


@pytest.mark.parametrize(
    ("waited", "bound"), [(0.0, 0.125), (0.0001, 0.125), (0.001, 1.0), (0.0011, 2.0), (0.3, 512.0)]
)
def test_a_wait_is_counted_under_the_next_power_of_two_of_milliseconds(waited, bound):
    queue = QueueStats()
    queue.count("full", waited)
    queue.count("full", waited)
    queue.count("timeout", 60.0)
    stats = NodeStats("node", "unit", 1).with_queue(queue)
    assert stats.closed == {"full": 2, "timeout": 1}
    assert stats.waits == {bound: 2, 65536.0: 1}
    assert (stats.node, stats.unit, stats.threads) == ("node", "unit", 1)
