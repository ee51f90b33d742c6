"""The ways round: which edges lead back to a loop unit, and from which of its outputs."""

from collections.abc import Iterable, Mapping, Sequence

from modelflow.graph.node import Edge, Node
from modelflow.graph.reach import following, reached
from modelflow.unit.kind import Scope

__all__ = ["back_edges", "looping_ports", "loops_of"]


def loops_of(nodes: Mapping[str, Node]) -> list[str]:
    """Returns the names of the loop units."""
    return [
        n.name for n in nodes.values() if n.spec is not None and n.spec.traits.scope is Scope.LOOPED
    ]


def back_edges(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> frozenset[Edge]:
    """Returns the edges by which a loop unit is entered from behind.

    Those are the edges from nodes that nothing reaches without passing the loop: of two loops, one
    inside the other, each then has its own.
    """
    found: set[Edge] = set()
    starts = [node.name for node in nodes.values() if not node.inputs]
    for loop in loops_of(nodes):
        outside = reached(starts, following(edge for edge in edges if loop not in _ends(edge)))
        behind = reached([loop], following(edges))
        found |= {
            edge
            for edge in edges
            if edge.target.node == loop
            and edge.source.node in behind
            and edge.source.node not in outside
        }
    return frozenset(found)


def looping_ports(
    loop: Node, into: Mapping[str, Sequence[Edge]], back: Iterable[Edge]
) -> frozenset[str]:
    """Returns the outputs of a loop from which there is a way back to it."""
    ends = {edge.source for edge in back if edge.target.node == loop.name}
    waiting, before = [end.node for end in ends if end.node != loop.name], set[str]()
    leaving = {end.port for end in ends if end.node == loop.name}
    while waiting:
        name = waiting.pop()
        if name in before:
            continue
        before.add(name)
        for edge in into[name]:
            if edge.source.node == loop.name:
                leaving.add(edge.source.port)
            else:
                waiting.append(edge.source.node)
    return frozenset(leaving)


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.source.node, edge.target.node
