"""The conditions for edges: connected, each input fed once, acyclic, one origin for each node."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from modelflow.errors import CycleError, Finding, PortError
from modelflow.graph.check.loops import back_edges, find_cycle, in_order, successors_of
from modelflow.graph.check.scopes import Scopes, find_scopes
from modelflow.graph.node import Edge, Endpoint, Node, Role


@dataclass(frozen=True, slots=True)
class Proof:
    """The facts about a graph whose edges are valid."""

    order: dict[str, Node]
    """The nodes in topological order; nodes of equal rank are in file order."""
    scopes: Scopes
    """The scope of the streams at each port."""


def prove(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> Proof:
    """Follows every stream of an acyclic graph; violations are in ``scopes.findings``."""
    back = back_edges(nodes, edges)
    forward = successors_of(nodes, (edge for edge in edges if edge not in back))
    return _follow(nodes, edges, back, in_order(forward))


def _follow(
    nodes: Mapping[str, Node], edges: Sequence[Edge], back: frozenset[Edge], names: Sequence[str]
) -> Proof:
    order = {name: nodes[name] for name in names}
    return Proof(order, find_scopes(order, edges, back))


def check_edges(
    nodes: Mapping[str, Node], edges: Sequence[Edge], unknown: Collection[str], is_strict: bool
) -> tuple[list[Finding], Proof | None]:
    """Returns the mistakes of the edges, and the proof (None with a cycle or unknown units).

    Args:
        nodes: The nodes by name.
        edges: The resolved edges.
        unknown: Nodes without a known unit; their ports are not checked.
        is_strict: Whether unconnected nodes are a mistake.
    """
    connected = {end.node for edge in edges for end in (edge.source, edge.target)}
    fed: dict[str, set[str]] = {}
    for edge in edges:
        fed.setdefault(edge.target.node, set()).add(edge.target.port)
    feeding = {edge.source.node for edge in edges}
    findings = []
    for node in nodes.values():
        if node.name in unknown:
            continue
        if node.name in connected:
            ports = fed.get(node.name, set()) if node.inputs else set()
            findings += _find_unconnected(node, ports, is_used=node.name in feeding)
        elif is_strict and (len(nodes) > 1 or node.inputs or node.outputs):
            message = "nothing connects it; connect or remove it (or [graph] strict=false)"
            findings.append(Finding(node.location, message, node.name, PortError))
    back = back_edges(nodes, edges)
    forward = [edge for edge in edges if edge not in back]
    ways = successors_of(nodes, forward)
    names = in_order(ways)
    if len(names) < len(nodes):
        return [*findings, _cycle_finding(find_cycle(ways), forward)], None
    if unknown:
        return findings, None
    proof = _follow(nodes, edges, back, names)
    return findings + proof.scopes.findings, proof


def dropping_outputs(nodes: Iterable[Node], edges: Sequence[Edge]) -> list[str]:
    """Returns a note for each output whose buffers are dropped, except optional outputs."""
    used = {edge.source for edge in edges}
    return [
        f"node {node.name!r}: buffers of {port.name!r} are dropped: nothing is connected to it"
        for node in nodes
        for port in (node.spec.outputs if node.spec is not None else ())
        if not port.is_optional and Endpoint(node.name, port.name) not in used
    ]


def _find_unconnected(node: Node, fed: Collection[str], *, is_used: bool) -> list[Finding]:
    optional = set() if node.spec is None else {p.name for p in node.spec.inputs if p.is_optional}
    findings = [
        Finding(node.location, f"input {port!r} is not connected", node.name, PortError, port)
        for port in node.inputs
        if port not in fed and port not in optional
    ]
    if node.role is Role.INPUT and not is_used:
        findings.append(Finding(node.location, "feeds nothing", node.name, PortError))
    return findings


def _cycle_finding(cycle: Sequence[tuple[str, str]], edges: Sequence[Edge]) -> Finding:
    way = " -> ".join([source for source, _ in cycle] + [cycle[0][0]])
    message = f"is in a cycle that passes no loop unit: {way}"
    within = [edge for edge in edges if (edge.source.node, edge.target.node) in cycle]
    last = max(within, key=lambda edge: edge.location.line or 0)  # the edge that closed the cycle
    return Finding(last.location, message, last.source.node, CycleError)
