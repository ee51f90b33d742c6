"""The checked graph: every name resolved, every value converted. Frozen; running reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from modelflow.config.flow_config import FlowConfig
from modelflow.device import CPU, Device
from modelflow.errors import Location
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["Edge", "Endpoint", "Graph", "Node", "NodeSettings", "Role"]


class Role(StrEnum):
    """What a node is: the graph's own input or output port, or a flow unit."""

    INPUT = "input"
    OUTPUT = "output"
    FLOWUNIT = "flowunit"


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The attributes of a node that the runtime obeys; None: the plan chooses.

    Attributes:
        batch_size: Most buffers in one call.
        queue_size: Bound of each input queue, in buffers.
        queue_sizes: The same for single inputs, by port.
        queue_bytes: A second bound of each input queue, in bytes.
        threads: Worker threads.
        workers: ``thread`` or ``process``.
        batch_timeout_ms: Longest wait in milliseconds to fill a batch once one buffer waits.
        allowed_batch_sizes: Inference: sizes to pad up to, rising.
        split_size: Most buffers of one session in a batch while others wait; 0: as they come.
        cpu_affinity: The processors of its threads, as text; empty: any.
        queue_policy: ``block`` or ``reject``.
        is_exception_visible: The unit is given buffers in error.
    """

    batch_size: int | None = None
    queue_size: int | None = None
    queue_sizes: Mapping[str, int] = field(default_factory=dict)
    queue_bytes: int | None = None
    threads: int | None = None
    workers: str = "thread"
    batch_timeout_ms: float = 0.0
    allowed_batch_sizes: tuple[int, ...] = ()
    split_size: int = 0
    cpu_affinity: str = ""
    queue_policy: str = "block"
    is_exception_visible: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A flow unit at its place in the graph, or one of the graph's own ports.

    A graph input has the single output port ``name``, a graph output the single input ``name``.

    Attributes:
        name: Unique in the graph; errors, threads and statistics are named after it.
        role: See `Role`.
        spec: The flow unit; None for the graph's own ports.
        devices: Where it may run; the first one for graph ports.
        options: The attributes that are options of the unit, as given (checked, not converted);
            ``spec.configure(options)`` gives what ``open`` gets.
        settings: See `NodeSettings`.
        location: Where it was written.
    """

    name: str
    role: Role
    spec: FlowUnitSpec | None = None
    devices: tuple[Device, ...] = (CPU,)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: NodeSettings = field(default_factory=NodeSettings)
    location: Location = field(default_factory=Location)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the input ports, connected or not."""
        if self.spec is not None:
            return tuple(port.name for port in self.spec.inputs)
        return (self.name,) if self.role is Role.OUTPUT else ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the output ports."""
        if self.spec is not None:
            return tuple(port.name for port in self.spec.outputs)
        return (self.name,) if self.role is Role.INPUT else ()


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A port of a node, resolved."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class Edge:
    """An output feeding an input."""

    source: Endpoint
    target: Endpoint
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class Graph:
    """A graph that passed every check.

    Attributes:
        name: The graph's name.
        nodes: By name, in topological order (file order among equals).
        edges: In file order, without repetitions.
        max_in_flight: Most buffers inside the graph at once; None: no bound but the queues.
        config: The file it was built from (profile, log, driver sections).
        notes: Sentences for the user: accepted attributes without effect, defaults worth knowing.
    """

    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    max_in_flight: int | None
    config: FlowConfig
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the graph's own inputs."""
        return tuple(node.name for node in self.nodes.values() if node.role is Role.INPUT)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's own outputs."""
        return tuple(node.name for node in self.nodes.values() if node.role is Role.OUTPUT)

    def edges_from(self, node: str) -> Iterator[Edge]:
        """Gives the edges that leave ``node``."""
        return (edge for edge in self.edges if edge.source.node == node)

    def edges_into(self, node: str) -> Iterator[Edge]:
        """Gives the edges that enter ``node``."""
        return (edge for edge in self.edges if edge.target.node == node)
