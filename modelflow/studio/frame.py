"""Computes the values that a page shows of a flow from its last snapshots. Pure.

Rates cover the last two seconds. Counts begin with the flow, as in `Flow.stats`.
"""

from collections.abc import Sequence
from typing import Any

from modelflow.draw.outline import Outline
from modelflow.profile.interval import Interval, NodeInterval
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import Histogram, NodeStats
from modelflow.studio.verdict import Verdict

_RATE_SECONDS = 2.0
_MARKS = (50, 95, 99)
# Outcomes of requests that units have processed to the end.
_ANSWERED = ("ok", "failed")


def frame_of(moments: Sequence[Snapshot], verdict: Verdict) -> dict[str, Any]:
    """Returns the values of a page as JSON values (``studio/src/live/frame.ts``: ``Frame``).

    Args:
        moments: The snapshots of the last seconds, the newest last; at least one.
        verdict: The sentence about the flow, from `SteadyVerdict`.
    """
    now = moments[-1]
    earlier = _earlier(moments, _RATE_SECONDS)
    interval = Interval.between(None if earlier is None else earlier.stats, now.stats)
    rate, unit = _rate(interval, now.outline)
    return {
        "name": interval.name,
        "seconds": now.stats.seconds,
        "rate": rate,
        "unit": unit,
        "in_flight": interval.in_flight,
        "outcomes": dict(now.stats.requests),
        "latency": _marks(interval.latency),
        "request": interval.request_seconds,
        "verdict": verdict.document(),
        "nodes": [_node(node, now.stats[node.node]) for node in interval.nodes],
        "troubles": [_trouble(node) for node in now.stats.values() if node.errors],
    }


def _earlier(moments: Sequence[Snapshot], seconds: float) -> Snapshot | None:
    """Returns the newest snapshot of at least that age, else the oldest; None for one snapshot."""
    now = moments[-1].stats.time
    old = [one for one in moments[:-1] if now - one.stats.time >= seconds]
    return old[-1] if old else moments[0] if len(moments) > 1 else None


def _rate(interval: Interval, outline: Outline) -> tuple[float, str]:
    """Returns requests per second, or rows per second if the last nodes process twice as many."""
    followed = {edge.source for edge in outline.edges if edge.target in interval.names}
    last = (node for node in interval.nodes if node.node not in followed)
    rows = max((node.rows_per_second for node in last), default=0.0)
    answered = sum(interval.requests.get(how, 0) for how in _ANSWERED)
    requests = answered / interval.seconds if interval.seconds > 0 else 0.0
    return (requests, "requests/s") if 2 * requests >= rows and requests else (rows, "rows/s")


# Attributes of a node that a page shows under the same name.
_SHOWN = (
    *("node", "stage", "threads", "batch_size", "busy", "starved", "blocked", "order", "queue"),
    "capacity",
)


def _node(node: NodeInterval, stats: NodeStats) -> dict[str, Any]:
    behind = stats.inside
    return {
        **{name: getattr(node, name) for name in _SHOWN},
        "unit": node.replicas_text or node.unit,
        "rate": node.rows_per_second,
        "batch": node.mean_batch_size,
        "rows": stats.buffers,
        "errors": stats.errors + stats.expired,
        "service": _marks(node.service),
        "wait": _marks(node.wait),
        "inside": [_node(inner, behind[inner.node]) for inner in node.inside],
    }


def _trouble(node: NodeStats) -> dict[str, Any]:
    return {
        "node": node.node,
        "count": node.errors,
        "kinds": dict(node.failures),
        "last": node.last_error,
    }


def _marks(histogram: Histogram) -> dict[str, float] | None:
    if not histogram.count:
        return None
    return {f"p{mark}": histogram.percentile(mark) for mark in _MARKS}
