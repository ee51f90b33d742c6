"""Computes the main figures of a flow between two moments: rate, latency, rows inside, machine.

The page shows the same figures as numbers and over time.
"""

from dataclasses import dataclass
from typing import Any

from modelflow.draw.outline import PORT, Outline
from modelflow.profile.interval import Interval
from modelflow.profile.snapshot import Snapshot
from modelflow.runtime.stats import Histogram

# Outcomes of requests that units have processed to the end.
_ANSWERED = ("ok", "failed")
_MARKS = (50, 95, 99)


@dataclass(frozen=True)
class Figures:
    """The main figures of a flow between two moments. None is an unknown value.

    Attributes:
        rate: Requests or rows per second.
        unit: ``requests/s``, or ``rows/s`` if the last nodes process twice as many rows.
        latency: The percentiles of the requests' durations, as of `percentiles_of`.
        inside: Rows in queues and in calls at the second moment.
        errors: Rows per second that failed or came too late.
        cpu: Processors that the process and its children used, such as 1.5.
        memory: Bytes of memory of the process at the second moment.
    """

    rate: float
    unit: str
    latency: dict[str, float] | None
    inside: int
    errors: float
    cpu: float | None
    memory: float | None

    @classmethod
    def between(cls, first: Snapshot | None, second: Snapshot, interval: Interval) -> "Figures":
        """Compares two moments; without ``first`` the start of the flow is used.

        Args:
            first: The earlier moment.
            second: The later moment.
            interval: The rates and shares between them.
        """
        rate, unit = _rate(interval, second.outline)
        failed = sum(node.errors + node.expired for node in interval.nodes)
        return cls(
            rate=rate,
            unit=unit,
            latency=percentiles_of(interval.latency),
            inside=sum(node.queue + node.calling for node in second.stats.values()),
            errors=failed / interval.seconds if interval.seconds > 0 else 0.0,
            cpu=None if first is None else _cpu(first, second),
            memory=second.process.get("resident_bytes"),
        )

    def sample(self, time: float) -> list[float | None]:
        """Returns the figures as a point in time (``studio/src/live/series.ts``: ``COLUMNS``)."""
        latency = self.latency or {}
        return [
            *(time, self.rate, latency.get("p50"), latency.get("p99"), self.inside),
            *(self.errors, self.cpu, self.memory),
        ]


def percentiles_of(histogram: Histogram) -> dict[str, float] | None:
    """Returns ``p50``, ``p95`` and ``p99`` in seconds; None for an empty histogram."""
    if not histogram.count:
        return None
    return {f"p{mark}": histogram.percentile(mark) for mark in _MARKS}


def has_requests(outline: Outline) -> bool:
    """Tells whether requests come into a graph; true for an unknown graph."""
    return not outline.nodes or any(n.kind == PORT and not n.inputs for n in outline.nodes)


def passage_seconds(interval: Interval, outline: Outline) -> float | None:
    """Returns about how long a row takes from a source to the end of the graph, on average.

    The estimate is the sum of waits and calls along the slowest path. It does not follow single
    rows, which costs the flow nothing. A loop counts once. None for a graph with inputs, which
    measures its requests, and for a graph with a node that was not called.
    """
    if has_requests(outline):
        return None
    until: dict[str, float] = {}
    for node in interval.nodes:
        if not node.service.count:
            return None
        before = [until.get(e.source, 0.0) for e in outline.edges if e.target == node.node]
        is_source = not any(edge.target == node.node for edge in outline.edges)
        own = 0.0 if is_source else node.wait.mean + node.service.mean
        until[node.node] = max(before, default=0.0) + own
    return max(until.values(), default=None)


def _rate(interval: Interval, outline: Outline) -> tuple[float, str]:
    """Returns requests per second, or rows per second if the last nodes process twice as many."""
    followed = {edge.source for edge in outline.edges if edge.target in interval.names}
    last = (node for node in interval.nodes if node.node not in followed)
    rows = max((node.rows_per_second for node in last), default=0.0)
    answered = sum(interval.requests.get(how, 0) for how in _ANSWERED)
    requests = answered / interval.seconds if interval.seconds > 0 else 0.0
    return (requests, "requests/s") if 2 * requests >= rows and requests else (rows, "rows/s")


def _cpu(first: Snapshot, second: Snapshot) -> float | None:
    seconds = second.stats.time - first.stats.time
    names = ("processor_seconds", "children_seconds")
    known = [name for name in names if name in first.process and name in second.process]
    if not known or seconds <= 0:
        return None
    used = sum(second.process[name] - first.process[name] for name in known)
    return max(0.0, used / seconds)


def machine_of(figures: Figures, snapshot: Snapshot) -> dict[str, Any]:
    """Returns the known figures of the process and its machine as JSON values."""
    values = {
        "cpu": figures.cpu,
        "processors": snapshot.machine.get("processors"),
        "memory": figures.memory,
        **{name: snapshot.process.get(name) for name in ("gpus", "gpu_share", "gpu_bytes")},
    }
    return {name: value for name, value in values.items() if value is not None}
