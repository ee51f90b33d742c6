"""Drawn graphs in a form for another process: as the content of a file, with units."""

from dataclasses import replace

from modelflow.config.flow_config import EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.schema import SECTIONS
from modelflow.graph.node import Role

_SETTINGS = ("threads", "batch_size", "queue_size", "batch_timeout_ms", "split_size")


def sent(graph, placements):
    """Returns the graph's config, and its units, each with a name of its own."""
    nodes, units = [], []
    for node in graph.nodes.values():
        if node.role is not Role.FLOWUNIT:
            nodes.append(NodeConfig(node.name, {"type": str(node.role)}))
            continue
        units.append(replace(node.spec, name=f"unit_{node.name}"))
        written = {key: getattr(node.settings, key) for key in _SETTINGS}
        written |= {"placement": node.settings.placement, "flowunit": f"unit_{node.name}"}
        if node.settings.is_exception_visible:
            written["is_exception_visible"] = True
        nodes.append(NodeConfig(node.name, {k: v for k, v in written.items() if v is not None}))
    edges = [
        EdgeConfig(
            PortRef(edge.source.node, edge.source.port), PortRef(edge.target.node, edge.target.port)
        )
        for edge in graph.edges
    ]
    sections = {name: {o.name: o.default for o in keys} for name, keys in SECTIONS.items()}
    sections["flow"]["max_in_flight"] = graph.max_in_flight
    sections["graph"]["fuse"] = "off"
    return FlowConfig(tuple(nodes), tuple(edges), **sections, placements=placements), units
