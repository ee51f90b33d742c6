"""What a DOT text says, without the places where it says it: to compare texts by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelflow.config.dot.read import DotGraph
from modelflow.config.flow_config import PortRef

Edge = tuple[PortRef, PortRef]


@dataclass(frozen=True)
class Meaning:
    """A graph as values that can be compared.

    Attributes:
        name, attributes: Those of the graph.
        nodes: The names, in order.
        given: The attributes of each node.
        edges: In order.
    """

    name: str
    attributes: Mapping[str, str]
    nodes: tuple[str, ...]
    given: Mapping[str, Mapping[str, str]]
    edges: tuple[Edge, ...]

    @classmethod
    def of(cls, graph: DotGraph) -> "Meaning":
        """Returns what a graph that was read says."""
        return cls(
            graph.name,
            graph.attributes,
            tuple(node.name for node in graph.nodes),
            {node.name: node.attributes for node in graph.nodes},
            tuple((edge.source, edge.target) for edge in graph.edges),
        )

    def giving(self, node: str, attributes: Mapping[str, str]) -> "Meaning":
        """Returns it with other attributes of a node."""
        return replace(self, given={**self.given, node: attributes})

    def without_node(self, name: str) -> "Meaning":
        """Returns it without a node and its edges."""
        return replace(
            self,
            nodes=tuple(node for node in self.nodes if node != name),
            given={node: given for node, given in self.given.items() if node != name},
            edges=tuple(edge for edge in self.edges if name not in (edge[0].node, edge[1].node)),
        )

    def without_edge(self, place: int) -> "Meaning":
        """Returns it without the edge at a place."""
        return replace(self, edges=self.edges[:place] + self.edges[place + 1 :])

    def rename(self, old: str, new: str) -> "Meaning":
        """Returns it with another name of a node."""

        def name(node: str) -> str:
            return new if node == old else node

        return replace(
            self,
            nodes=tuple(map(name, self.nodes)),
            given={name(node): given for node, given in self.given.items()},
            edges=tuple(
                (PortRef(name(a.node), a.port), PortRef(name(b.node), b.port))
                for a, b in self.edges
            ),
        )
