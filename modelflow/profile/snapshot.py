"""One JSON document of a flow's statistics, its plan and its machine.

The document has a version. Later programs can read it, or refuse it and name its version.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import modelflow
from modelflow.device.interpreter import has_lock
from modelflow.draw.outline import Outline
from modelflow.errors import ConfigError
from modelflow.profile.process import process_figures
from modelflow.runtime.stats import FlowStats, Histogram, NodeStats

if TYPE_CHECKING:
    from modelflow.flow import Flow
    from modelflow.plan import ExecutionPlan


_SIZED = ("batch_sizes", "batch_seconds")  # fields whose keys are numbers


def _document(figures: Any) -> Any:
    """Returns statistics as values that JSON can represent, with keys as text."""
    if is_dataclass(figures):
        return {one.name: _document(getattr(figures, one.name)) for one in fields(figures)}
    if isinstance(figures, Mapping):
        return {str(key): _document(one) for key, one in figures.items()}
    return figures


def _read_node(document: Mapping[str, Any]) -> NodeStats:
    """Reads the document of a node, and ignores fields of later versions.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: the document is damaged.
    """
    known = {field.name for field in fields(NodeStats)}
    found = {name: value for name, value in document.items() if name in known}
    for name in _SIZED:
        found[name] = {int(size): value for size, value in found[name].items()}
    for name in ("service", "wait"):
        found[name] = _read_histogram(found[name])
    found["replicas"] = {
        replica: {name: _read_node(one) for name, one in nodes.items()}
        for replica, nodes in found.get("replicas", {}).items()
    }
    return NodeStats(**found)


def _read_histogram(document: Mapping[str, Any]) -> Histogram:
    """Reads the document of a histogram."""
    counts = {int(bucket): int(count) for bucket, count in document["counts"].items()}
    return Histogram(counts, float(document["total"]))


VERSION = 1
"""The version of the document's format."""

# Figures of a process that remain valid after its end. Other figures belong to the machine or to
# the moment.
_USED = (
    *("processor_seconds", "children_seconds", "native_seconds", "collection_seconds"),
    *("front_end_seconds", "front_end_runnable_seconds"),
)
_NOW = ("resident_bytes", "front_ends", "processes")


@dataclass(frozen=True)
class Snapshot:
    """A flow at one moment.

    Attributes:
        stats: The statistics of the flow.
        plan: For each node the row of the plan that ``modelflow check -v`` shows.
        machine: ``system``, ``python``, ``modelflow``, ``interpreter_lock`` (whether Python has
            one), and ``processors`` usable by the process.
        process: See `process_figures`; with ``lock_wait_seconds`` if a `LockProbe` ran.
        outline: The graph for drawing; empty if unknown.
    """

    stats: FlowStats
    plan: tuple[Mapping[str, str], ...]
    machine: Mapping[str, Any]
    process: Mapping[str, float] = field(default_factory=dict)
    outline: Outline = field(default_factory=Outline)

    @classmethod
    def of(cls, stats: FlowStats, plan: "ExecutionPlan", outline: Outline | None = None) -> Self:
        """Returns the snapshot of the statistics of a flow in this process."""
        machine = {
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "modelflow": modelflow.__version__,
            "interpreter_lock": has_lock(),
            "processors": len(os.sched_getaffinity(0)),
        }
        rows = tuple(plan.rows())
        return cls(stats, rows, machine, process_figures(), outline or Outline())

    @classmethod
    def of_flow(cls, flow: "Flow") -> Self:
        """Returns the snapshot of a flow in this process, with its graph."""
        scheduler = flow.scheduler
        return cls.of(scheduler.statistics(), scheduler.plan, Outline.of(flow.graph))

    def document(self) -> dict[str, Any]:
        """Returns the snapshot as a JSON object; `read` is the inverse."""
        flow = _document(self.stats)
        nodes = [*flow.pop("nodes").values()]
        return {
            "version": VERSION,
            "machine": dict(self.machine),
            "process": dict(self.process),
            "graph": self.outline.document(),
            "plan": [dict(row) for row in self.plan],
            "flow": flow,
            "nodes": nodes,
        }

    @classmethod
    def read(cls, document: Any) -> Self:
        """Reads a snapshot that `document` has returned, perhaps on another machine or long ago.

        Raises:
            ConfigError: the document has another form or another version.
        """
        if not isinstance(document, Mapping) or "version" not in document:
            raise ConfigError("this is no snapshot of a flow: it has no 'version'")
        if document["version"] != VERSION:
            raise ConfigError(
                f"the snapshot has version {document['version']!r}; expected {VERSION}, which this "
                "modelflow writes and reads"
            )
        try:
            flow = dict(document["flow"])
            flow["latency"] = _read_histogram(flow["latency"])
            nodes = {node["node"]: _read_node(node) for node in document["nodes"]}
            stats = FlowStats(nodes=nodes, **flow)
            process = {name: float(value) for name, value in document["process"].items()}
            outline = Outline.read(document["graph"]) if "graph" in document else Outline()
            return cls(stats, tuple(document["plan"]), document["machine"], process, outline)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"the snapshot is damaged: {type(error).__name__}: {error}"
            ) from error

    def __add__(self, other: "Snapshot") -> "Snapshot":
        """Returns the sum with the snapshot of the same flow in another process of this machine."""
        process = {**other.process, **self.process}
        for name in (*_USED, *_NOW):
            found = [one.process[name] for one in (self, other) if name in one.process]
            process.update({name: sum(found)} if found else {})
        return replace(self, stats=self.stats + other.stats, process=process)

    @property
    def past(self) -> "Snapshot":
        """The snapshot after the end of its process, without values of the moment."""
        process = {name: self.process[name] for name in _USED if name in self.process}
        return replace(self, stats=self.stats.past, process=process)
