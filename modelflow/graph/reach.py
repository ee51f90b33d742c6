"""Which nodes can be reached from which, along the edges."""

from collections.abc import Iterable, Mapping

from modelflow.graph.node import Edge

__all__ = ["following", "preceding", "reached"]


def following(edges: Iterable[Edge]) -> dict[str, set[str]]:
    """Returns for each node those that it feeds."""
    found: dict[str, set[str]] = {}
    for edge in edges:
        found.setdefault(edge.source.node, set()).add(edge.target.node)
    return found


def preceding(edges: Iterable[Edge]) -> dict[str, set[str]]:
    """Returns for each node those that feed it."""
    found: dict[str, set[str]] = {}
    for edge in edges:
        found.setdefault(edge.target.node, set()).add(edge.source.node)
    return found


def reached(starts: Iterable[str], ways: Mapping[str, Iterable[str]]) -> set[str]:
    """Returns ``starts`` and all nodes to which ``ways`` (node -> next nodes) lead from them."""
    found, waiting = set[str](), list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += ways.get(name, ())
    return found
