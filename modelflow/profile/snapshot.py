"""One JSON document of a flow's figures, its plan and its machine, which whoever looks reads.

Versioned: what is written today can be read tomorrow, or is refused with its version.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version as version_of
from typing import Any, Self

from modelflow.errors import ConfigError
from modelflow.plan import ExecutionPlan
from modelflow.runtime.stats import FlowStats, Histogram, NodeStats

__all__ = ["VERSION", "Snapshot"]

VERSION = 1
"""The form of the document."""

_SIZED = ("batch_sizes", "batch_seconds")  # whose keys are numbers, which JSON has as texts


@dataclass(frozen=True)
class Snapshot:
    """A flow at one moment.

    Attributes:
        stats: Its figures.
        plan: What runs where, and why: for each node the row that ``modelflow check -v`` shows.
        machine: ``system``, ``python``, ``modelflow``, ``processors`` that it may use.
    """

    stats: FlowStats
    plan: tuple[Mapping[str, str], ...]
    machine: Mapping[str, Any]

    @classmethod
    def of(cls, stats: FlowStats, plan: ExecutionPlan) -> Self:
        """Takes it of a flow in this process."""
        machine = {
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "modelflow": version_of("modelflow"),
            "processors": len(os.sched_getaffinity(0)),
        }
        return cls(stats, tuple(plan.rows()), machine)

    def document(self) -> dict[str, Any]:
        """Returns it as what JSON can hold; `read` is its inverse."""
        stats = self.stats
        return {
            "version": VERSION,
            "machine": dict(self.machine),
            "plan": [dict(row) for row in self.plan],
            "flow": {
                "name": stats.name,
                "time": stats.time,
                "seconds": stats.seconds,
                "requests": dict(stats.requests),
                "latency": _histogram(stats.latency),
                "in_flight": stats.in_flight,
                "pool": dict(stats.pool),
            },
            "nodes": [_node(node) for node in stats.values()],
        }

    @classmethod
    def read(cls, document: Any) -> Self:
        """Takes it of what `document` has given, perhaps elsewhere and long ago.

        Raises:
            ConfigError: it is no such document, or of another version.
        """
        if not isinstance(document, Mapping) or "version" not in document:
            message = "this is no snapshot of a flow: it has no 'version'"
            raise ConfigError(message)
        if document["version"] != VERSION:
            message = (
                f"the snapshot has version {document['version']!r}; expected {VERSION}, which this "
                "modelflow writes and reads"
            )
            raise ConfigError(message)
        try:
            flow = dict(document["flow"])
            flow["latency"] = _read_histogram(flow["latency"])
            nodes = {node["node"]: _read_node(node) for node in document["nodes"]}
            return cls(FlowStats(nodes=nodes, **flow), tuple(document["plan"]), document["machine"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the snapshot is damaged: {type(error).__name__}: {error}"
            raise ConfigError(message) from error


def _node(node: NodeStats) -> dict[str, Any]:
    found = asdict(node)
    for name in _SIZED:
        found[name] = {str(size): value for size, value in found[name].items()}
    found["figures"] = {
        name: {str(key): value for key, value in own.items()} for name, own in node.figures.items()
    }
    return {**found, "service": _histogram(node.service), "wait": _histogram(node.wait)}


def _read_node(document: Mapping[str, Any]) -> NodeStats:
    known = {field.name for field in fields(NodeStats)}
    found = {name: value for name, value in document.items() if name in known}
    for name in _SIZED:
        found[name] = {int(size): value for size, value in found[name].items()}
    for name in ("service", "wait"):
        found[name] = _read_histogram(found[name])
    return NodeStats(**found)


def _histogram(histogram: Histogram) -> dict[str, Any]:
    counts = {str(bucket): count for bucket, count in histogram.counts.items()}
    return {"total": histogram.total, "counts": counts}


def _read_histogram(document: Mapping[str, Any]) -> Histogram:
    counts = {int(bucket): int(count) for bucket, count in document["counts"].items()}
    return Histogram(counts, float(document["total"]))
