"""Advice for better settings with the same result; advice is no mistake and changes nothing."""

from modelflow.graph.graph import Graph
from modelflow.graph.node import Node
from modelflow.unit.advice import Place


def advice(graph: Graph) -> list[str]:
    """Returns the advice of a graph's units for their nodes, each with its file and line."""
    said = []
    for node in graph.nodes.values():
        if node.spec is None or node.spec.advise is None:
            continue
        readers = dict.fromkeys(edge.target.node for edge in graph.edges_from(node.name))
        places = [_place(graph.nodes[name]) for name in readers]
        sentence = node.spec.advise(_place(node), places)
        if sentence is not None:
            said.append(f"{node.location}: node {node.name!r}: {sentence}")
    return said


def _place(node: Node) -> Place:
    return Place(
        node=node.name,
        unit="" if node.spec is None else node.spec.name,
        devices=frozenset(device.kind for device in node.devices),
        written=frozenset(node.options),
        config=node.config,
    )
