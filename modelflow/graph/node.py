"""The parts of a graph: nodes, their ports, and the edges between these; every name resolved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from modelflow.config.node_settings import NodeSettings
from modelflow.device import CPU, Device
from modelflow.errors import Location
from modelflow.unit.kind import Kind, Normal
from modelflow.unit.spec import FlowUnitSpec

if TYPE_CHECKING:
    from modelflow.unit.port import Port


_OF_PORTS = Normal()


class Role(StrEnum):
    """What a node is: the graph's own input or output port, or a flow unit."""

    INPUT = "input"
    OUTPUT = "output"
    FLOWUNIT = "flowunit"


@dataclass(frozen=True, slots=True)
class Node:
    """A flow unit at its place in the graph, or one of the graph's own ports.

    A graph input has the single output port ``name``, a graph output the single input ``name``.

    Attributes:
        name: Unique in the graph; errors, threads and statistics are named after it.
        role: See `Role`.
        spec: The flow unit; None for the graph's own ports.
        devices: Where it may run; the first one for graph ports.
        options: The attributes that are options of the unit, as given.
        config: The options, converted: what ``open`` gets.
        settings: See `NodeSettings`.
        location: Where it was written.
    """

    name: str
    role: Role
    spec: FlowUnitSpec | None = None
    devices: tuple[Device, ...] = (CPU,)
    options: Mapping[str, Any] = field(default_factory=dict)
    config: Any = None
    settings: NodeSettings = field(default_factory=NodeSettings)
    location: Location = field(default_factory=Location)

    @property
    def kind(self) -> Kind:
        """The kind of its unit; the graph's own ports are as normal units."""
        return _OF_PORTS if self.spec is None else self.spec.kind

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the input ports, connected or not."""
        if self.spec is not None:
            return self.spec.input_names
        return (self.name,) if self.role is Role.OUTPUT else ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the output ports."""
        if self.spec is not None:
            return self.spec.output_names
        return (self.name,) if self.role is Role.INPUT else ()

    def main_port(self, side: str) -> str | None:
        """Returns the port that an edge means which names none: the only one not optional.

        Args:
            side: ``inputs`` or ``outputs``.
        """
        ports: tuple[Port, ...] = () if self.spec is None else getattr(self.spec, side)
        needed = [port.name for port in ports if not port.is_optional]
        return needed[0] if len(needed) == 1 else None


class Endpoint(NamedTuple):
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
