"""The frozen, checked graph, with every name resolved and every value converted."""

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
        nodes: The nodes by name, in topological order (file order for equal ranks).
        edges: The edges in file order, without duplicates.
        max_in_flight: Maximum buffers inside the graph, or None for no limit except the queues.
        config: The graph file (profile, log, driver sections).
        scopes: The result of the check: the streams at each port, and the inputs where branches
            meet.
        notes: Notes for the user: accepted attributes without effect, important defaults.
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
        """Returns the port that a node's unit declares, or a port with only a name."""
        spec = self.nodes[end.node].spec
        declared = () if spec is None else (*spec.inputs, *spec.outputs)
        return next((port for port in declared if port.name == end.port), Port(end.port))

    def edges_from(self, node: str) -> list[Edge]:
        """Returns the edges that leave ``node``."""
        return [edge for edge in self.edges if edge.source.node == node]

    def edges_into(self, node: str) -> list[Edge]:
        """Returns the edges that enter ``node``."""
        return [edge for edge in self.edges if edge.target.node == node]
