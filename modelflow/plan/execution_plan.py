"""Frozen values of a plan: threads, batches, queues, routes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from modelflow.config.node_settings import NodeSettings
from modelflow.device import Device
from modelflow.table import html_table, text_table
from modelflow.unit.spec import FlowUnitSpec

# Seconds. For a row that takes this long, a separate call costs less than one percent more.
SLOW_ROW = 2e-3


@dataclass(frozen=True, slots=True)
class Target:
    """An input that an output feeds: the node (or graph output), and the place of its port.

    For a loop, port 1 is the input of its back edge.
    """

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """A unit of one node, with the values that its calls need."""

    node: str
    """The node's name."""
    spec: FlowUnitSpec
    """The unit."""
    config: Any = None
    """The unit's options, converted, as ``open`` gets them."""
    settings: NodeSettings = field(default_factory=NodeSettings)
    """The attributes in the graph. The plan of the stage has the values chosen from them."""
    inputs: tuple[str, ...] = ()
    """The connected input ports."""
    consumers: tuple[int, ...] = ()
    """For each output port, the number of inputs fed by the port."""
    sources: tuple[int, ...] = ()
    """For later units of a chain: for each input, the place of the previous unit's output."""
    is_exception_visible: bool = False
    """Whether the unit gets buffers with an error."""
    exit_port: int = 0
    """For a loop: the output that leaves the loop."""
    allowed_batch_sizes: tuple[int, ...] = ()
    """The sizes up to which a call is filled, rising. Empty if any size is allowed."""

    @property
    def largest_batch(self) -> int | None:
        """The most rows that a call of the unit may have; None without a limit."""
        sizes = self.allowed_batch_sizes
        return sizes[-1] if sizes else self.spec.max_batch_size


@dataclass(frozen=True)
class StagePlan:
    """The nodes that run on one set of threads after one queue: one node, or a chain of nodes.

    The stage has the name of its first node, to which all its inputs lead.
    """

    units: tuple[UnitPlan, ...]
    """The units in the order of the data. Only a chain has more than one."""
    devices: tuple[Device, ...]
    """The devices. Worker N runs on device N modulo their number."""
    threads: int
    """The number of workers."""
    threads_reason: str
    """The reason for this number."""
    batch_size: int
    """The most rows in a call."""
    bounds: tuple[int, ...]
    """For each connected input of the first unit, the queue's bound in rows."""
    routes: tuple[tuple[Target, ...], ...]
    """For each output port of the last unit, the inputs fed by the port."""
    depth: int = 0
    """The number of expands around the node, inside the innermost loop."""
    marks: tuple[tuple[frozenset[int], Target], ...] = ()
    """For a condition: the inputs where its branches meet, with the outputs that feed each."""
    moves: bool = False
    """Whether its data may have to be copied between devices."""
    delivered: frozenset[int] = frozenset()
    """The outputs (by place) that feed an output of the graph."""
    cpu_affinity: frozenset[int] = frozenset()
    """The processors that its threads may use. Empty if any are allowed."""
    executor: str = "thread"
    """The kind of workers: ``"thread"``, or ``"process"`` with one process per worker and unit."""
    chain_reason: str = ""
    """For several units: the reason why they run as one stage."""

    @property
    def name(self) -> str:
        """The name of the first node."""
        return self.units[0].node

    @property
    def unit(self) -> UnitPlan:
        """The first unit. Only a chain of normal units has further units."""
        return self.units[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the stage, in the order of the data."""
        return tuple(unit.node for unit in self.units)

    @property
    def is_one_by_one(self) -> bool:
        """Tells whether rows that take `SLOW_ROW` or longer get a separate call each.

        True only if a call of several rows has no advantage, and no row waits for a fuller batch.
        """
        return (
            self.batch_size > 1
            and not self.batch_timeout
            and all(unit.spec.is_one_by_one for unit in self.units)
            and all(device.kind == "cpu" for device in self.devices)
        )

    @property
    def batch_timeout(self) -> float:
        """The longest wait for a fuller batch, in seconds."""
        return self.unit.settings.batch_timeout_ms / 1e3

    @property
    def is_terminal(self) -> bool:
        """Tells whether data leaves the graph here, because no stage follows."""
        return not any(self.routes)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """An input where branches of a condition meet.

    Attributes:
        edges: The number of edges that meet.
        bound: The most buffers of a session that may wait for their turn before the condition
            waits. None if there is no limit.
    """

    edges: int
    bound: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """The start of streams (the graph's inputs together, or one source) and their possible ends.

    Attributes:
        outputs: The graph outputs that can be reached.
        terminals: The outputs and the last nodes that can be reached.
        counted_at: The terminals and nodes that every row passes exactly once. After all of them a
            row is no longer counted as in flight. An expand makes many rows of one, and is
            therefore itself such a node.
        single_outputs: The outputs that get exactly one buffer for each sent buffer.
        is_counted: Whether every row passes every terminal exactly once, and no unit may keep rows
            for later.
        is_row_by_row: Whether every row passes separately. No unit on the way sees sessions or
            streams, pairs inputs, or lets sessions take turns.
    """

    outputs: tuple[str, ...]
    terminals: tuple[str, ...]
    counted_at: tuple[str, ...]
    single_outputs: frozenset[str]
    is_counted: bool
    is_row_by_row: bool = False


@dataclass(frozen=True)
class ExecutionPlan:
    """A graph with all decisions for its execution.

    Attributes:
        name: The name of the flow.
        stages: The stages by the name of their first node, in topological order.
        entries: Graph input -> the inputs that it feeds.
        outputs: The graph's outputs.
        merges: Inputs where branches of a condition meet.
        origins: Source node -> its `Origin`; ``""`` for the graph's own inputs, if any.
        max_in_flight: The most rows inside the graph at once, or None.
    """

    name: str
    stages: Mapping[str, StagePlan]
    entries: Mapping[str, tuple[Target, ...]]
    outputs: tuple[str, ...]
    origins: Mapping[str, Origin]
    max_in_flight: int | None
    merges: Mapping[Target, MergePlan] = field(default_factory=dict)

    @property
    def slow_row_ms(self) -> float:
        """The milliseconds from which a row gets a separate call; see `StagePlan.is_one_by_one`."""
        return SLOW_ROW * 1e3

    @cached_property
    def nodes(self) -> dict[str, StagePlan]:
        """The stage of every node."""
        return {node: stage for stage in self.stages.values() for node in stage.nodes}

    @cached_property
    def feeders(self) -> dict[Target, set[str]]:
        """For every fed input, the feeding stages and graph inputs."""
        found: dict[Target, set[str]] = {}
        fed = [(name, target) for name, route in self.entries.items() for target in route]
        fed += [(s.name, target) for s in self.stages.values() for target in chain(*s.routes)]
        for name, target in fed:
            found.setdefault(target, set()).add(name)
        return found

    def rows(self) -> list[dict[str, str]]:
        """Explains the plan as a table: one row for each node, with the same columns."""
        return [
            _row(stage, place)
            for stage in self.stages.values()
            for place in range(len(stage.units))
        ]

    def __str__(self) -> str:
        return text_table(self.rows())

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.name)


def _row(stage: StagePlan, place: int) -> dict[str, str]:
    unit, following = stage.units[place], stage.units[place + 1 :][:1]
    spec = unit.spec
    queues = zip(unit.inputs, stage.bounds, strict=True) if place == 0 else ()
    feeds = [target.node for route in stage.routes for target in route]
    waits = f", waits {stage.batch_timeout * 1e3:g} ms" if stage.batch_timeout else ""
    if stage.is_one_by_one:
        waits = f" (1 from {SLOW_ROW * 1e3:g} ms)"
    return {
        "node": unit.node,
        "unit": spec.name if spec.kind.is_plain else f"{spec.name} ({spec.kind})",
        "device": ", ".join(map(str, stage.devices)),
        "threads": f"on those of {stage.name} ({stage.chain_reason})"
        if place
        else f"{stage.threads} ({stage.threads_reason})",
        "batch": f"{stage.batch_size}{waits}",
        "queue": ", ".join(f"{port} {bound}" for port, bound in queues) or "-",
        "feeds": ", ".join([follower.node for follower in following] or feeds) or "-",
    }
