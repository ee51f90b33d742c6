"""What edges must fulfil: connected, fed once, acyclic, of one origin."""

import graphlib
from collections.abc import Collection, Mapping, Sequence

from modelflow.errors import CycleError, Finding, PortError, StreamMismatchError
from modelflow.flowunit.spec import Kind
from modelflow.graph.graph import Edge, Endpoint, Node, Role

__all__ = ["check_edges", "in_order"]


def check_edges(
    nodes: Mapping[str, Node], edges: Sequence[Edge], unknown: Collection[str], is_strict: bool
) -> list[Finding]:
    """Returns everything that is wrong with the edges.

    Args:
        nodes: By name.
        edges: Resolved.
        unknown: Nodes whose unit is not known: nothing is said of their ports.
        is_strict: Nodes that nothing connects are an error.
    """
    connected = {end.node for edge in edges for end in (edge.source, edge.target)}
    findings = []
    for node in nodes.values():
        if node.name in unknown:
            continue
        if node.name not in connected:
            if is_strict and (len(nodes) > 1 or node.inputs or node.outputs):
                message = "nothing connects it; connect or remove it (or [graph] strict=false)"
                findings.append(Finding(node.location, message, node.name, PortError))
            continue
        findings += _unconnected(node, edges)
    findings += _fed_twice(nodes, edges)
    cycle = _cycle(nodes, edges)
    if cycle is not None:
        findings.append(cycle)
    elif not unknown:
        findings += _mismatches(nodes, edges)
    return findings


def in_order(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> dict[str, Node]:
    """Returns the nodes in topological order, those of equal rank in file order."""
    sorter = _sorter(nodes, edges)
    sorter.prepare()
    places = {name: place for place, name in enumerate(nodes)}
    ordered: dict[str, Node] = {}
    while sorter.is_active():
        for name in sorted(sorter.get_ready(), key=places.__getitem__):
            ordered[name] = nodes[name]
            sorter.done(name)
    return ordered


def _unconnected(node: Node, edges: Sequence[Edge]) -> list[Finding]:
    fed = {edge.target.port for edge in edges if edge.target.node == node.name}
    used = any(edge.source.node == node.name for edge in edges)
    optional = set() if node.spec is None else {p.name for p in node.spec.inputs if p.is_optional}
    findings = [
        Finding(node.location, f"input {port!r} is not connected", node.name, PortError)
        for port in node.inputs
        if port not in fed and port not in optional
    ]
    if node.role is Role.INPUT and not used:
        findings.append(Finding(node.location, "feeds nothing", node.name, PortError))
    return findings


def _fed_twice(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> list[Finding]:
    feeders: dict[Endpoint, list[Edge]] = {}
    for edge in edges:
        feeders.setdefault(edge.target, []).append(edge)
    findings = []
    for target, found in feeders.items():
        if len(found) > 1 and not _may_meet(nodes, edges, found):
            sources = " and ".join(str(edge.source) for edge in found)
            message = (
                f"input {target.port!r} is fed by {sources}; only branches of one condition unit, "
                "or the way back of a loop, may meet in one input"
            )
            findings.append(Finding(found[1].location, message, target.node, PortError))
    return findings


def _may_meet(nodes: Mapping[str, Node], edges: Sequence[Edge], found: Sequence[Edge]) -> bool:
    kinds = (Kind.CONDITION, Kind.LOOP)
    return all(
        any(
            spec.kind in kinds
            for name in (edge.source.node, *_ancestors(edges, edge.source.node))
            if (spec := nodes[name].spec) is not None
        )
        or _is_loop_entry(nodes, edge)
        for edge in found
    )


def _is_loop_entry(nodes: Mapping[str, Node], edge: Edge) -> bool:
    spec = nodes[edge.target.node].spec
    return spec is not None and spec.kind is Kind.LOOP


def _ancestors(edges: Sequence[Edge], node: str) -> set[str]:
    found: set[str] = set()
    waiting = [node]
    while waiting:
        name = waiting.pop()
        for edge in edges:
            if edge.target.node == name and edge.source.node not in found:
                found.add(edge.source.node)
                waiting.append(edge.source.node)
    return found


def _sorter(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> graphlib.TopologicalSorter[str]:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter(dict.fromkeys(nodes, ()))
    for edge in edges:
        if not _leads_back(nodes, edges, edge):
            sorter.add(edge.target.node, edge.source.node)
    return sorter


def _leads_back(nodes: Mapping[str, Node], edges: Sequence[Edge], edge: Edge) -> bool:
    """Tells whether an edge enters a loop unit from behind it."""
    target = nodes[edge.target.node]
    is_loop = target.spec is not None and target.spec.kind is Kind.LOOP
    behind = edge.source.node == target.name or target.name in _ancestors(edges, edge.source.node)
    return is_loop and behind


def _cycle(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> Finding | None:
    try:
        _sorter(nodes, edges).prepare()
    except graphlib.CycleError as error:
        names = list(reversed(error.args[1]))
        way = " -> ".join(names)
        message = f"is in a cycle that passes no loop unit: {way}"
        return Finding(nodes[names[0]].location, message, names[0], CycleError)
    return None


def _mismatches(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> list[Finding]:
    """Finds nodes that join streams of different origin or depth."""
    origins: dict[str, tuple[str, int]] = {}
    findings = []
    for node in in_order(nodes, edges).values():
        incoming = [
            edge for edge in edges if edge.target.node == node.name and edge.source.node in origins
        ]
        ways = {origins[edge.source.node]: edge for edge in incoming}
        if len(ways) > 1:
            (one, first), (two, second) = list(ways.items())[:2]
            message = (
                f"joins streams that do not match: {first.target.port!r} comes from {first.source} "
                f"({_described(one)}), {second.target.port!r} from {second.source} "
                f"({_described(two)})"
            )
            findings.append(Finding(node.location, message, node.name, StreamMismatchError))
        origin, depth = next(iter(ways), (_origin(node), 0))
        kind = None if node.spec is None else node.spec.kind
        depth += {Kind.EXPAND: 1, Kind.COLLAPSE: -1}.get(kind, 0) if kind else 0
        if depth < 0:
            message = "collapses a stream that nothing before it has expanded"
            findings.append(Finding(node.location, message, node.name, StreamMismatchError))
            depth = 0
        origins[node.name] = (origin, depth)
    return findings


def _origin(node: Node) -> str:
    return "" if node.role is Role.INPUT else node.name


def _described(way: tuple[str, int]) -> str:
    origin, depth = way
    source = f"the source {origin!r}" if origin else "the graph's input"
    return f"from {source}, expanded {depth} times" if depth else f"from {source}"
