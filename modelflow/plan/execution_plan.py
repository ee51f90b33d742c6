"""What will run where: threads, batches, queues, routes. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelflow.config.node_settings import NodeSettings
from modelflow.device import Device
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["ExecutionPlan", "MergePlan", "Origin", "StagePlan", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """An input that an output feeds: the node (or graph output), and the place of its port.

    Port 1 of a loop is its way back.
    """

    node: str
    port: int


@dataclass(frozen=True)
class StagePlan:
    """One node as it will run: what it says (``settings``), and what was chosen for it."""

    node: str
    """The node's name."""
    spec: FlowUnitSpec
    """The unit."""
    config: Any
    """The unit's options, converted: what ``open`` gets."""
    settings: NodeSettings
    """The attributes of the node, as it gives them; what is chosen from them stands below."""
    devices: tuple[Device, ...]
    """Its devices; worker N runs on number N modulo their count."""
    threads: int
    """How many workers."""
    threads_reason: str
    """Why that many."""
    batch_size: int
    """Most rows in a call."""
    inputs: tuple[str, ...]
    """The connected input ports."""
    bounds: tuple[int, ...]
    """For each of them, the queue's bound in rows."""
    routes: tuple[tuple[Target, ...], ...]
    """For each output port of the unit, what it feeds."""
    is_exception_visible: bool
    """The unit is given buffers in error."""
    depth: int = 0
    """How many expands enclose the node, since the innermost loop."""
    marks: tuple[tuple[frozenset[int], Target], ...] = ()
    """A condition's: the inputs where its branches meet, each with the outputs that lead there."""
    exit_port: int = 0
    """A loop's: the output that leads on."""
    moves: bool = False
    """Its data may have to be copied between devices."""
    delivered: frozenset[int] = frozenset()
    """The outputs (by place) that feed an output of the graph."""
    allowed_batch_sizes: tuple[int, ...] = ()
    """The sizes that a call is filled up to, rising; empty: any."""
    cpu_affinity: frozenset[int] = frozenset()
    """The processors that its threads may use; empty: any."""
    executor: str = "thread"
    """Where the unit runs: ``"thread"``, or ``"process"``: each worker has one."""

    @property
    def batch_timeout(self) -> float:
        """Longest wait in seconds for a fuller batch."""
        return self.settings.batch_timeout_ms / 1e3

    @property
    def is_terminal(self) -> bool:
        """Tells whether nothing follows: data leaves the graph here."""
        return not any(self.routes)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """An input where branches of a condition meet.

    Attributes:
        edges: How many edges do.
        bound: How many buffers of a session may wait there for their turn before the condition
            waits; None: any number.
    """

    edges: int
    bound: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where streams begin (the graph's inputs together, or one source) and where they can end.

    Attributes:
        outputs: The graph outputs that can be reached.
        terminals: Those, and the nodes that nothing follows.
        counted_at: The terminals and nodes that every row passes exactly once; when it has passed
            all of them it is no longer counted as in flight. Behind an expand (where one row
            becomes many) this is the expand itself.
        single_outputs: The outputs that get exactly one buffer for each that is sent.
        is_counted: Every terminal does, and no unit may keep rows for later.
    """

    outputs: tuple[str, ...]
    terminals: tuple[str, ...]
    counted_at: tuple[str, ...]
    single_outputs: frozenset[str]
    is_counted: bool


@dataclass(frozen=True)
class ExecutionPlan:
    """A graph as it will run.

    Attributes:
        name: The flow's name.
        stages: By node, in topological order.
        entries: Graph input -> what it feeds.
        outputs: The graph's outputs.
        merges: Inputs where branches of a condition meet.
        origins: Source node -> its `Origin`; ``""`` for the graph's own inputs, where it has any.
        max_in_flight: Most rows inside the graph at once, or None.
    """

    name: str
    stages: Mapping[str, StagePlan]
    entries: Mapping[str, tuple[Target, ...]]
    outputs: tuple[str, ...]
    origins: Mapping[str, Origin]
    max_in_flight: int | None
    merges: Mapping[Target, MergePlan] = field(default_factory=dict)

    def rows(self) -> list[dict[str, str]]:
        """Explains the plan as a table: one row a node, the same columns in each."""
        return [
            {
                "node": stage.node,
                "unit": _unit(stage.spec),
                "device": ", ".join(map(str, stage.devices)),
                "threads": f"{stage.threads} ({stage.threads_reason})",
                "batch": str(stage.batch_size)
                + (f", waits {stage.batch_timeout * 1e3:g} ms" if stage.batch_timeout else ""),
                "queue": ", ".join(
                    f"{port} {bound}"
                    for port, bound in zip(stage.inputs, stage.bounds, strict=True)
                )
                or "-",
                "feeds": ", ".join(target.node for route in stage.routes for target in route)
                or "-",
            }
            for stage in self.stages.values()
        ]


def _unit(spec: FlowUnitSpec) -> str:
    return spec.name if spec.kind.traits.is_plain else f"{spec.name} ({spec.kind})"
