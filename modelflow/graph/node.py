"""The parts of a graph: nodes, ports and edges, with every name resolved."""

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
    """The role of a node: an input or output port of the graph, or a flow unit."""

    INPUT = "input"
    OUTPUT = "output"
    FLOWUNIT = "flowunit"


@dataclass(frozen=True, slots=True)
class Node:
    """A flow unit at its place in the graph, or a port of the graph.

    A graph input has the single output port ``name``, a graph output the single input ``name``.

    Attributes:
        name: The unique name in the graph; errors, threads and statistics use it.
        role: See `Role`.
        spec: The flow unit, or None for a port of the graph.
        devices: The devices where the unit may run; a port of the graph uses the first.
        options: The attributes that are options of the unit, as given.
        config: The converted options, for ``open``.
        settings: See `NodeSettings`.
        location: The location in the graph file.
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
        """The kind of the unit; a port of the graph counts as a normal unit."""
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
        """Returns the port for an edge without a port name: the only port that is not optional.

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
    """An edge from an output to an input."""

    source: Endpoint
    target: Endpoint
    location: Location = field(default_factory=Location)
