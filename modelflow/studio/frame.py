"""Computes the values that a page shows of a flow from its last snapshots. Pure.

Rates cover the last two seconds, the details of a node ten. Counts begin with the flow, as in
`Flow.stats`. Every frame has the details of all nodes. It is computed once for all pages, and no
page needs another stream to open a node.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from modelflow.profile.interval import Interval, NodeInterval
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import NodeStats
from modelflow.studio.figures import (
    Figures,
    has_requests,
    machine_of,
    passage_seconds,
    percentiles_of,
)
from modelflow.studio.verdict import Verdict

_RATE_SECONDS = 2.0
# The most bars of a histogram. More batch sizes share bars of equal width.
_MOST_BARS = 12


def frame_of(moments: Sequence[Snapshot], verdict: Verdict) -> dict[str, Any]:
    """Returns the values of a page as JSON values (``studio/src/live/frame.ts``: ``Frame``).

    Args:
        moments: The snapshots of the last seconds, the newest last; at least one.
        verdict: The sentence about the flow, from `SteadyVerdict`.
    """
    now = moments[-1]
    earlier = _earlier(moments, _RATE_SECONDS)
    interval = Interval.between(None if earlier is None else earlier.stats, now.stats)
    figures = Figures.between(earlier, now, interval)
    whole = Interval.between(moments[0].stats if moments[1:] else None, now.stats)
    return {
        "name": interval.name,
        "time": now.stats.time,
        "seconds": now.stats.seconds,
        "rate": figures.rate,
        "unit": figures.unit,
        "in_flight": interval.in_flight if has_requests(now.outline) else None,
        "inside": figures.inside,
        "passage": passage_seconds(whole, now.outline),
        "errors": figures.errors,
        "machine": machine_of(figures, now),
        "outcomes": dict(now.stats.requests),
        "latency": figures.latency,
        "request": interval.request_seconds,
        "verdict": verdict.document(),
        "nodes": [
            _node(node, now.stats[node.node], over_all)
            for node, over_all in zip(interval.nodes, whole.nodes, strict=True)
        ],
        "troubles": [_trouble(node) for node in now.stats.values() if node.errors or node.expired],
    }


def _earlier(moments: Sequence[Snapshot], seconds: float) -> Snapshot | None:
    """Returns the newest snapshot of at least that age, else the oldest; None for one snapshot."""
    now = moments[-1].stats.time
    old = [one for one in moments[:-1] if now - one.stats.time >= seconds]
    return old[-1] if old else moments[0] if len(moments) > 1 else None


# Attributes of a node that a page shows under the same name.
_SHOWN = (
    *("node", "stage", "threads", "batch_size", "busy", "starved", "blocked", "order", "queue"),
    "capacity",
)


def _node(node: NodeInterval, stats: NodeStats, whole: NodeInterval) -> dict[str, Any]:
    behind, longer = stats.inside, {inner.node: inner for inner in whole.inside}
    return {
        **{name: getattr(node, name) for name in _SHOWN},
        "unit": node.replicas_text or node.unit,
        "rate": node.rows_per_second,
        "batch": node.mean_batch_size,
        "rows": stats.buffers,
        "errors": stats.errors + stats.expired,
        "service": percentiles_of(node.service),
        "wait": percentiles_of(node.wait),
        "details": _details(whole),
        "inside": [_node(inner, behind[inner.node], longer[inner.node]) for inner in node.inside],
    }


def _details(node: NodeInterval) -> dict[str, Any]:
    """Returns the figures that a page shows of an opened node alone."""
    shares = ("running", "waiting", "runnable")
    return {
        "service": percentiles_of(node.service),
        "wait": percentiles_of(node.wait),
        "times": sorted(node.service.counts.items()),
        "batches": _bars({size: count for size, (count, _) in node.calls.items() if size}),
        "closed": dict(node.closed),
        "cores": {name: getattr(node, name) for name in shares} if node.running else {},
        "moving": node.moving,
        "padding": node.padding,
        "cuts": node.cuts,
    }


def _bars(sizes: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Returns the first and the last batch size of each bar, and its number of calls."""
    width = 1 if len(sizes) <= _MOST_BARS else -(-max(sizes) // _MOST_BARS)
    found: dict[int, int] = {}
    for size, count in sorted(sizes.items()):
        first = (size - 1) // width * width + 1
        found[first] = found.get(first, 0) + count
    return [(first, first + width - 1, count) for first, count in found.items()]


def _trouble(node: NodeStats) -> dict[str, Any]:
    return {
        "node": node.node,
        "count": node.errors + node.expired,
        "kinds": {**node.failures, **({"expired": node.expired} if node.expired else {})},
        "at": dict(node.failed_at),
        "last": node.last_error,
    }
