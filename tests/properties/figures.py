"""The invariants of the statistics of a finished flow."""

__all__ = ["check_figures"]

# The clocks are read one after the other, so a worker's sum may differ by this many seconds.
SLACK = 0.005


def check_figures(scheduler):
    """Checks the sums of every node, and of the requests."""
    stats = scheduler.statistics()
    assert stats.in_flight == 0
    assert set(stats.requests) <= {"ok", "failed", "expired", "cancelled", "rejected"}
    ended = sum(count for name, count in stats.requests.items() if name != "cancelled")
    assert stats.latency.count == ended - stats.requests.get("rejected", 0)
    assert all(count == 0 for count in stats.unread.values()) or stats.unread_bound
    stages = {}
    for name, node in stats.items():
        with_rows = sum(count for size, count in node.batch_sizes.items() if size)
        assert node.buffers <= node.rows_taken, name  # rows in error pass by the unit
        assert node.batches == sum(node.batch_sizes.values()), name
        assert node.service.count >= node.batches * 0.5, (
            name,
            node.service,
            node.batch_sizes,
        )  # a sampled short call counts for sixteen
        assert sum(node.failures.values()) == node.errors, (name, node.failures, node.errors)
        assert node.errors <= node.buffers, name
        if node.closed:
            assert sum(node.closed.values()) == with_rows, (name, node.closed)
        if not scheduler.options.is_inline:
            stages.setdefault(node.stage, []).append(node)
    for nodes in stages.values():
        first = nodes[0]
        busy = sum(node.busy for node in nodes) - first.lent
        known = busy + first.starved + first.blocked + first.order
        slack = SLACK * first.threads + 0.02 * first.seconds
        assert known <= first.seconds + slack, (first.node, known, first.seconds)
