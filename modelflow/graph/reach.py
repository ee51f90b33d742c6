"""The nodes and edges of a graph as a graph of networkx, for its algorithms.

networkx is imported inside functions: it takes 0.1 s, which ``from modelflow import Flow`` must not
cost.
"""

from collections.abc import Iterable
from typing import Any

from modelflow.graph.node import Edge

__all__ = ["connected_parts", "digraph", "find_cycle", "in_order", "reached"]


def digraph(nodes: Iterable[str], edges: Iterable[Edge]) -> Any:
    """Returns the ``networkx.DiGraph`` of some nodes and edges."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((edge.source.node, edge.target.node) for edge in edges)
    return graph


def reached(graph: Any, starts: Iterable[str]) -> set[str]:
    """Returns ``starts`` and all nodes to which edges lead from them."""
    import networkx

    names = set(starts)
    return names.union(*(networkx.descendants(graph, name) for name in names))


def in_order(graph: Any) -> list[str]:
    """Returns the nodes of an acyclic graph in topological order, those of equal rank as given."""
    import networkx

    places = {name: place for place, name in enumerate(graph)}
    ranks = networkx.topological_generations(graph)
    return [name for rank in ranks for name in sorted(rank, key=places.__getitem__)]


def find_cycle(graph: Any) -> list[tuple[str, str]]:
    """Returns the edges of a cycle, each of which feeds the next; empty: there is none."""
    import networkx

    try:
        return list(networkx.find_cycle(graph))
    except networkx.NetworkXNoCycle:
        return []


def connected_parts(graph: Any) -> list[set[str]]:
    """Returns the sets of nodes that edges connect, whichever way these lead."""
    import networkx

    return list(networkx.weakly_connected_components(graph))
