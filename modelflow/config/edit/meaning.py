"""The meaning of a graph text, without positions, to compare texts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from modelflow.config.flow_config import PortRef

Edge = tuple[PortRef, PortRef]


@dataclass(frozen=True)
class Meaning:
    """A graph as values that can be compared.

    Attributes:
        nodes: The names, in order.
        given: The attributes of each node.
        edges: The edges, in order.
        sections: All other keys of the file, by section; attributes of a DOT graph are in ``dot``.
    """

    nodes: tuple[str, ...]
    given: Mapping[str, Mapping[str, Any]]
    edges: tuple[Edge, ...]
    sections: Mapping[str, Any]

    def is_same(self, other: Self) -> bool:
        """Tells whether two texts have the same meaning, including the types of values."""
        texts = (json.dumps(vars(one), sort_keys=True, default=repr) for one in (self, other))
        return next(texts) == next(texts)

    def with_attributes(self, node: str, attributes: Mapping[str, Any]) -> Self:
        """Returns a copy with other attributes of a node."""
        return replace(self, given={**self.given, node: attributes})

    def with_key(self, section: str, key: str, value: Any) -> Self:
        """Returns a copy with another key of a section."""
        keys = {**self.sections.get(section, {}), key: value}
        return replace(self, sections={**self.sections, section: keys})

    def without_node(self, name: str) -> Self:
        """Returns a copy without a node and its edges."""
        return replace(
            self,
            nodes=tuple(node for node in self.nodes if node != name),
            given={node: given for node, given in self.given.items() if node != name},
            edges=tuple(edge for edge in self.edges if name not in (edge[0].node, edge[1].node)),
        )

    def without_edge(self, edge: Edge) -> Self:
        """Returns a copy without all copies of an edge."""
        return replace(self, edges=tuple(other for other in self.edges if other != edge))

    def rename(self, old: str, new: str) -> Self:
        """Returns a copy with another name of a node."""

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
