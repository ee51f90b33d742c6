"""Reachability of nodes, and the edges that lead back to a loop unit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from modelflow.graph.node import Edge, Node
from modelflow.unit.kind import Loop

# Node name -> the names of the nodes that its edges lead to.
Successors = dict[str, list[str]]


def successors_of(nodes: Iterable[str], edges: Iterable[Edge]) -> Successors:
    """Returns the successors of each node, in the order of the nodes."""
    found: Successors = {name: [] for name in nodes}
    for edge in edges:
        found[edge.source.node].append(edge.target.node)
    return found


def predecessors_of(successors: Successors) -> Successors:
    """Returns the predecessors of each node."""
    found: Successors = {name: [] for name in successors}
    for name, following in successors.items():
        for other in following:
            found[other].append(name)
    return found


def reach(successors: Successors, starts: Iterable[str]) -> set[str]:
    """Returns ``starts`` and all nodes that edges reach from them."""
    found = set(starts)
    left = list(found)
    while left:
        new = set(successors[left.pop()]) - found
        found |= new
        left += new
    return found


def find_between(successors: Successors, first: Collection[str], last: Collection[str]) -> set[str]:
    """Returns the nodes on paths from ``first`` to ``last``, without these two sets."""
    behind, before = reach(successors, first), reach(predecessors_of(successors), last)
    return (behind & before) - {*first, *last}


def in_order(successors: Successors) -> list[str]:
    """Returns the nodes in topological order, equal ranks in the given order; empty for a cycle."""
    places = {name: place for place, name in enumerate(successors)}
    sorter = TopologicalSorter(predecessors_of(successors))
    try:
        sorter.prepare()
    except CycleError:
        return []
    found: list[str] = []
    while rank := sorter.get_ready():
        found += sorted(rank, key=places.__getitem__)
        sorter.done(*rank)
    return found


def find_cycle(successors: Successors) -> list[tuple[str, str]]:
    """Returns the edges of a cycle in order, or an empty list without a cycle."""
    try:
        TopologicalSorter(predecessors_of(successors)).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]  # the first node is the last one as well
        return list(pairwise(names))
    return []


def find_connected_parts(successors: Successors) -> list[set[str]]:
    """Returns the sets of nodes that are connected by edges of any direction."""
    before = predecessors_of(successors)
    both = {name: successors[name] + before[name] for name in successors}
    found: list[set[str]] = []
    left = dict.fromkeys(both)
    while left:
        part = reach(both, [next(iter(left))])
        found.append(part)
        for name in part:
            del left[name]
    return found


def loops_of(nodes: Mapping[str, Node]) -> list[str]:
    """Returns the names of the loop units."""
    return [node.name for node in nodes.values() if isinstance(node.kind, Loop)]


def back_edges(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> frozenset[Edge]:
    """Returns the edges by which a loop unit is entered from its own body.

    Two conditions decide whether an edge into a loop leads back. Its source must be reachable from
    the loop. Without the loop, its source must not be reachable from an input or a source of the
    graph. With a loop inside another, each loop then gets its own edges. For example, with the
    loops ``outer`` and ``inner``::

        in -> outer:in          outer:body -> inner:in      inner:body -> work:in
        outer:exit -> out:in    inner:exit -> outer:in      work:out -> inner:in

    The result is ``inner:exit -> outer:in`` and ``work:out -> inner:in``. The edge ``outer:body ->
    inner:in`` is none: the inner loop reaches ``outer``, but ``in`` reaches ``outer`` without it.
    """
    found: set[Edge] = set()
    for loop in loops_of(nodes):
        starts = [node.name for node in nodes.values() if not node.inputs]
        others = (e for e in edges if loop not in (e.source.node, e.target.node))
        outside = reach(successors_of(nodes, others), starts)
        behind = reach(successors_of(nodes, edges), [loop])
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
    """Returns the outputs of a loop from which a path leads back to the loop."""
    returning = [edge for edge in back if edge.target.node == loop.name]
    before = nodes_before(loop.name, into, returning)
    edges = [*returning, *(edge for name in before for edge in into[name])]
    return frozenset(edge.source.port for edge in edges if edge.source.node == loop.name)


def nodes_before(
    loop: str, into: Mapping[str, Sequence[Edge]], returning: Iterable[Edge]
) -> set[str]:
    """Returns the nodes on paths to the edges that return to a loop, without the loop."""
    edges = [edge for name in into if name != loop for edge in into[name]]
    ends = {edge.source.node for edge in returning}
    return reach(predecessors_of(successors_of(into, edges)), ends) - {loop}
