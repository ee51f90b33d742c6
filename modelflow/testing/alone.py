"""Makes a graph that runs only one flow unit, with graph inputs and outputs at its ports.

For a collapse with the port "boxes"::

    to boxes -> stream:boxes -> UNIT:boxes -> from merged

where "stream" is an expand that makes a stream from the given list.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from modelflow.config.flow_config import FlowConfig
from modelflow.config.node_settings import NodeSettings
from modelflow.device import Device
from modelflow.graph.check.edges import prove
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.unit.kind import Collapse, Expand
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

_STREAM = "stream"


def input_of(port: str) -> str:
    """Returns the name of the graph's input for a port."""
    return f"to {port}"


def output_of(port: str) -> str:
    """Returns the name of the graph's output for a port."""
    return f"from {port}"


def graph_of(
    spec: FlowUnitSpec,
    ports: Iterable[str],
    device: str,
    options: Mapping[str, Any],
    batch_size: int | None,
) -> Graph:
    """Returns the graph of a unit.

    Args:
        spec: The unit.
        ports: The connected inputs.
        device: The kind of its device.
        options: Its options.
        batch_size: The most buffers of a call. The default is the unit's own default.

    Raises:
        ConfigError: the options are wrong.
    """
    ports, unit = tuple(ports), spec.name
    settings = NodeSettings(batch_size=batch_size, threads=1)
    nodes = {input_of(port): Node(input_of(port), Role.INPUT) for port in ports}
    before = {port: Endpoint(input_of(port), input_of(port)) for port in ports}
    edges = []
    if isinstance(spec.kind, Collapse):
        both = tuple(map(Port, ports))
        stream = FlowUnitSpec(_STREAM, {"cpu": _Stream}, both, both, kind=Expand())
        nodes[_STREAM] = Node(_STREAM, Role.FLOWUNIT, stream)
        edges += [Edge(end, Endpoint(_STREAM, port)) for port, end in before.items()]
        before = {port: Endpoint(_STREAM, port) for port in ports}
    config = spec.configure(options)
    nodes[unit] = Node(unit, Role.FLOWUNIT, spec, (Device(device),), options, config, settings)
    edges += [Edge(end, Endpoint(unit, port)) for port, end in before.items()]
    for port in spec.output_names:
        nodes[output_of(port)] = Node(output_of(port), Role.OUTPUT)
        edges.append(Edge(Endpoint(unit, port), Endpoint(output_of(port), output_of(port))))
    proof = prove(nodes, edges)
    return Graph(unit, proof.order, tuple(edges), None, FlowConfig((), ()), proof.scopes)


class _Stream(FlowUnit):
    """Makes a stream from the list of buffers in each input."""

    def process(self, ctx: Context) -> None:
        for port, (whole,) in ctx.inputs.items():
            ctx.emit(whole.data, port)
