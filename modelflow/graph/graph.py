"""The checked graph: every name resolved, every value converted. Frozen; running reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from modelflow.config.flow_config import FlowConfig
from modelflow.graph.check.scopes import Scopes
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.unit.port import Port


@dataclass(frozen=True)
class Graph:
    """A graph that passed every check.

    Attributes:
        name: The graph's name.
        nodes: By name, in topological order (file order among equals).
        edges: In file order, without repetitions.
        max_in_flight: Most buffers inside the graph at once; None: no bound but the queues.
        config: The file it was built from (profile, log, driver sections).
        scopes: Which streams pass where, and where branches meet: what the check has proved.
        notes: Sentences for the user: accepted attributes without effect, defaults worth knowing.
    """

    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    max_in_flight: int | None
    config: FlowConfig
    scopes: Scopes
    notes: tuple[str, ...] = ()

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the graph's own inputs."""
        return tuple(node.name for node in self.nodes.values() if node.role is Role.INPUT)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's own outputs."""
        return tuple(node.name for node in self.nodes.values() if node.role is Role.OUTPUT)

    def port(self, end: Endpoint) -> Port:
        """Returns what the unit of a node says of its port: nothing but the name, perhaps."""
        spec = self.nodes[end.node].spec
        declared = () if spec is None else (*spec.inputs, *spec.outputs)
        return next((port for port in declared if port.name == end.port), Port(end.port))

    def edges_from(self, node: str) -> list[Edge]:
        """Returns the edges that leave ``node``."""
        return [edge for edge in self.edges if edge.source.node == node]

    def edges_into(self, node: str) -> list[Edge]:
        """Returns the edges that enter ``node``."""
        return [edge for edge in self.edges if edge.target.node == node]
