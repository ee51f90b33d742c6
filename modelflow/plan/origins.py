"""Finds the starts of streams, and the places where streams leave the graph."""

from collections import Counter
from collections.abc import Iterable

from modelflow.graph.check.loops import Successors, reach, successors_of
from modelflow.graph.check.scopes import Level
from modelflow.graph.graph import Graph
from modelflow.graph.node import Role
from modelflow.plan.execution_plan import Origin
from modelflow.unit.kind import Normal, Source


def find_origins(graph: Graph) -> dict[str, Origin]:
    """Returns the origins by source node, with ``""`` for the graph's own inputs."""
    origins = {
        node.name: _origin(graph, node.name, [node.name])
        for node in graph.nodes.values()
        if isinstance(node.kind, Source)
    }
    if graph.inputs:
        origins[""] = _origin(graph, "", graph.inputs)
    return origins


def _origin(graph: Graph, origin: str, starts: Iterable[str]) -> Origin:
    ways = successors_of(graph.nodes, graph.edges)
    there = reach(ways, starts)
    outputs = tuple(name for name in graph.outputs if name in there)
    last = tuple(
        node.name
        for node in graph.nodes.values()
        if node.role is Role.FLOWUNIT and node.name in there and not ways[node.name]
    )
    terminals = outputs + last
    whole = {name for name in there if graph.scopes.inputs[name] == (Level(origin),)}
    single = whole & set(terminals)
    is_late = any(graph.nodes[name].kind.may_keep for name in there)
    kind = graph.nodes[origin].kind if origin else None
    is_opening = isinstance(kind, Source) and kind.opens_sessions
    is_counted = single == set(terminals) and not is_late and not is_opening
    return Origin(
        outputs=outputs,
        terminals=terminals,
        counted_at=terminals if is_counted else _find_counted(graph, ways, whole, terminals),
        single_outputs=frozenset(single & set(outputs)),
        is_counted=is_counted,
        is_row_by_row=not origin and _is_row_by_row(graph),
    )


def _is_row_by_row(graph: Graph) -> bool:
    edges = Counter(edge.target.node for edge in graph.edges)
    return len(graph.inputs) == 1 and all(
        edges[node.name] <= 1
        and isinstance(node.kind, Normal | Source)
        and not node.kind.is_per_stream
        and not node.settings.split_size
        for node in graph.nodes.values()
    )


def _find_counted(
    graph: Graph, ways: Successors, whole: set[str], terminals: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the nodes that every row passes before rows may vanish, multiply or wait.

    The names in ``whole`` are those that every row passes once. A node after a node that delays
    rows may wait for them, even if another way leads there, and is left out.
    """
    breaking = [name for name in whole if graph.nodes[name].kind.may_change_count]
    behind = reach(ways, (n for name in breaking for n in ways[name]))
    return tuple(
        name
        for name in graph.nodes
        if name in whole - behind and (name in breaking or name in terminals)
    )
