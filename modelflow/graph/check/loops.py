"""Which nodes can be reached from which, and which edges lead back to a loop unit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from modelflow.graph.node import Edge, Node
from modelflow.unit.kind import Loop


def digraph(nodes: Iterable[str], edges: Iterable[Edge]) -> Any:
    """Returns the ``networkx.DiGraph`` of some nodes and edges."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from([(edge.source.node, edge.target.node) for edge in edges])
    return graph


def reach(graph: Any, starts: Iterable[str]) -> set[str]:
    """Returns ``starts`` and all nodes to which edges lead from them."""
    import networkx

    names = set(starts)
    return names.union(*(networkx.descendants(graph, name) for name in names))


def find_between(graph: Any, first: Collection[str], last: Collection[str]) -> set[str]:
    """Returns the nodes on the ways from some nodes to others, without these."""
    return (reach(graph, first) & reach(graph.reverse(), last)) - {*first, *last}


def in_order(graph: Any) -> list[str]:
    """Returns the nodes in topological order, those of equal rank as given; empty: a cycle."""
    import networkx

    places = {name: place for place, name in enumerate(graph)}
    try:
        ranks = list(networkx.topological_generations(graph))
    except networkx.NetworkXUnfeasible:
        return []
    return [name for rank in ranks for name in sorted(rank, key=places.__getitem__)]


def find_cycle(graph: Any) -> list[tuple[str, str]]:
    """Returns the edges of a cycle, each of which feeds the next; empty: there is none."""
    import networkx

    try:
        return list(networkx.find_cycle(graph))
    except networkx.NetworkXNoCycle:
        return []


def find_connected_parts(graph: Any) -> list[set[str]]:
    """Returns the sets of nodes that edges connect, whichever way these lead."""
    import networkx

    return list(networkx.weakly_connected_components(graph))


def loops_of(nodes: Mapping[str, Node]) -> list[str]:
    """Returns the names of the loop units."""
    return [node.name for node in nodes.values() if isinstance(node.kind, Loop)]


def back_edges(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> frozenset[Edge]:
    """Returns the edges by which a loop unit is entered from behind.

    Those are the edges from nodes that nothing reaches without passing the loop: of two loops, one
    inside the other, each then has its own.
    """
    found: set[Edge] = set()
    for loop in loops_of(nodes):
        starts = [node.name for node in nodes.values() if not node.inputs]
        others = (e for e in edges if loop not in (e.source.node, e.target.node))
        outside = reach(digraph(nodes, others), starts)
        behind = reach(digraph(nodes, edges), [loop])
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
    returning = [edge for edge in back if edge.target.node == loop.name]
    before = nodes_before(loop.name, into, returning)
    edges = [*returning, *(edge for name in before for edge in into[name])]
    return frozenset(edge.source.port for edge in edges if edge.source.node == loop.name)


def nodes_before(
    loop: str, into: Mapping[str, Sequence[Edge]], returning: Iterable[Edge]
) -> set[str]:
    """Returns the nodes from which edges lead to what returns to a loop, without the loop."""
    edges = [edge for name in into if name != loop for edge in into[name]]
    ends = {edge.source.node for edge in returning}
    return reach(digraph(into, edges).reverse(), ends) - {loop}
