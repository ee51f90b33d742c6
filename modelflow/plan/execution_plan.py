"""What will run where: threads, batches, queues, routes. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from modelflow.config.node_settings import NodeSettings
from modelflow.device import Device
from modelflow.table import html_table, text_table
from modelflow.unit.spec import FlowUnitSpec

# Seconds. Beside a row that takes so long, a call of its own costs less than a hundredth.
SLOW_ROW = 2e-3


@dataclass(frozen=True, slots=True)
class Target:
    """An input that an output feeds: the node (or graph output), and the place of its port.

    Port 1 of a loop is its way back.
    """

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """A unit as one node runs it: what its calls must know."""

    node: str
    """The node's name."""
    spec: FlowUnitSpec
    """The unit."""
    config: Any = None
    """The unit's options, converted: what ``open`` gets."""
    settings: NodeSettings = field(default_factory=NodeSettings)
    """The attributes of the node, as it gives them; what is chosen from them stands in the stage's
    plan."""
    inputs: tuple[str, ...] = ()
    """The connected input ports."""
    consumers: tuple[int, ...] = ()
    """For each output port, how many inputs it feeds."""
    sources: tuple[int, ...] = ()
    """In a chain, behind its first unit: for each input, the place of the output of the unit before
    that feeds it."""
    is_exception_visible: bool = False
    """The unit is given buffers in error."""
    exit_port: int = 0
    """A loop's: the output that leads on."""
    allowed_batch_sizes: tuple[int, ...] = ()
    """The sizes that a call is filled up to, rising; empty: any."""


@dataclass(frozen=True)
class StagePlan:
    """What runs on one set of threads behind one queue: a node, or a chain of them.

    It bears the name of its first node: what feeds the stage feeds that one.
    """

    units: tuple[UnitPlan, ...]
    """Its units, in the order of the data; one, unless nodes were fused."""
    devices: tuple[Device, ...]
    """Its devices; worker N runs on number N modulo their count."""
    threads: int
    """How many workers."""
    threads_reason: str
    """Why that many."""
    batch_size: int
    """Most rows in a call."""
    bounds: tuple[int, ...]
    """For each connected input of the first unit, the queue's bound in rows."""
    routes: tuple[tuple[Target, ...], ...]
    """For each output port of the last unit, what it feeds."""
    depth: int = 0
    """How many expands enclose the node, since the innermost loop."""
    marks: tuple[tuple[frozenset[int], Target], ...] = ()
    """A condition's: the inputs where its branches meet, each with the outputs that lead there."""
    moves: bool = False
    """Its data may have to be copied between devices."""
    delivered: frozenset[int] = frozenset()
    """The outputs (by place) that feed an output of the graph."""
    cpu_affinity: frozenset[int] = frozenset()
    """The processors that its threads may use; empty: any."""
    executor: str = "thread"
    """Where the units run: ``"thread"``, or ``"process"``: each worker has one a unit."""
    chain_reason: str = ""
    """Of several units: why they run as one stage."""

    @property
    def name(self) -> str:
        """The name of its first node."""
        return self.units[0].node

    @property
    def unit(self) -> UnitPlan:
        """Its first unit; the only one, but in a chain of normal units."""
        return self.units[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it runs, in the order of the data."""
        return tuple(unit.node for unit in self.units)

    @property
    def is_one_by_one(self) -> bool:
        """Tells whether rows that take `SLOW_ROW` or longer get a call each.

        Only where several in a call would not help each other, and none waits for a fuller batch.
        """
        return (
            self.batch_size > 1
            and not self.batch_timeout
            and all(unit.spec.is_one_by_one for unit in self.units)
            and all(device.kind == "cpu" for device in self.devices)
        )

    @property
    def batch_timeout(self) -> float:
        """Longest wait in seconds for a fuller batch."""
        return self.unit.settings.batch_timeout_ms / 1e3

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
        is_row_by_row: Every row passes by itself: no unit on the way sees sessions or streams,
            pairs inputs, or has sessions take turns.
    """

    outputs: tuple[str, ...]
    terminals: tuple[str, ...]
    counted_at: tuple[str, ...]
    single_outputs: frozenset[str]
    is_counted: bool
    is_row_by_row: bool = False


@dataclass(frozen=True)
class ExecutionPlan:
    """A graph as it will run.

    Attributes:
        name: The flow's name.
        stages: By the name of their first node, in topological order.
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

    @property
    def slow_row_ms(self) -> float:
        """The milliseconds from which a row is a call by itself; see `StagePlan.is_one_by_one`."""
        return SLOW_ROW * 1e3

    @cached_property
    def nodes(self) -> dict[str, StagePlan]:
        """Every node, with the stage that runs it."""
        return {node: stage for stage in self.stages.values() for node in stage.nodes}

    @cached_property
    def feeders(self) -> dict[Target, set[str]]:
        """For every input that is fed: the stages and inputs of the graph that feed it."""
        found: dict[Target, set[str]] = {}
        fed = [(name, target) for name, route in self.entries.items() for target in route]
        fed += [(s.name, target) for s in self.stages.values() for target in chain(*s.routes)]
        for name, target in fed:
            found.setdefault(target, set()).add(name)
        return found

    def rows(self) -> list[dict[str, str]]:
        """Explains the plan as a table: one row a node, the same columns in each."""
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
