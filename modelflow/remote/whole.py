"""A graph that places nothing, run whole by each replica: items go there, results come back.

The graph in front has the inputs and outputs of the graph and one far node. Where items have
nothing to do with one another, each is a request of its own in a flow of the whole graph, in
whichever replica has room: conditions, loops and whatever an expand begins run there as here. What
an output gets of an item, none or many, crosses as one value, which a node behind the far one
spreads out again, so that results are in the order of the items.

Where a unit sees one item after another (a stream unit, a sink, a source, one that is called stream
by stream), the whole session goes through one replica: see `modelflow.remote.remote_session`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.plan.origins import find_origins
from modelflow.plan.placement import Entry, Exit, Partition, graph_of
from modelflow.remote.engine import Engine
from modelflow.remote.message import Several, buffers_of
from modelflow.remote.part import part_of
from modelflow.remote.part_session import DROPPED
from modelflow.remote.remote_session import session_spec
from modelflow.remote.remote_unit import remote_spec
from modelflow.unit.kind import Kind
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

__all__ = ["nodes_in_order", "whole"]

_FAR = "whole"


def whole(
    graph: Graph, engine: Engine, placement: PlacementConfig, units: Iterable[Any] = ()
) -> Graph:
    """Returns a graph for `Flow` whose items, or session, go through replicas of a whole graph.

    Args:
        graph: Places nothing.
        engine: Where the replicas run.
        placement: How many there are, what each takes, how it is asked. Where the graph has
            `nodes_in_order` there is one.
        units: Flow units that only the caller's code knows. They are sent to the replicas.

    Raises:
        PlanError: the graph has no text that could be sent.
    """
    is_in_order = bool(nodes_in_order(graph))
    if is_in_order:
        placement = replace(placement, replicas=(1, 1))
    part = _part(graph, placement)
    pool = engine.pool(placement, [part_of(part, tuple(units))])
    spec = session_spec(part, pool) if is_in_order else remote_spec(part, pool)
    # An error that comes in goes the way that it goes here, which not every output may lie on.
    settings = replace(part.settings, is_exception_visible=True)
    if is_in_order:
        settings = replace(settings, threads=1, split_size=0)
    far = Node(part.name, Role.FLOWUNIT, spec, config=spec.configure({}), settings=settings)
    single = find_origins(graph)[""].single_outputs if not is_in_order else graph.outputs
    nodes = {name: Node(name, Role.INPUT) for name in graph.inputs} | {far.name: far}
    edges = [Edge(Endpoint(name, name), Endpoint(far.name, name)) for name in graph.inputs]
    for name in graph.outputs:
        source = Endpoint(far.name, name)
        if name not in single:
            node = _node(_free(f"{name}_each", nodes), _Spread, Kind.STREAM, Port("output"))
            nodes[node.name] = node
            edges.append(Edge(source, Endpoint(node.name, "input")))
            source = Endpoint(node.name, "output")
        nodes[name] = Node(name, Role.OUTPUT)
        edges.append(Edge(source, Endpoint(name, name)))
    if is_in_order:
        node = _node(_free(f"{far.name}_dropped", nodes), _Drop, Kind.NORMAL)
        nodes[node.name] = node
        edges.append(Edge(Endpoint(far.name, DROPPED), Endpoint(node.name, "input")))
    return graph_of(graph, nodes, tuple(edges), graph.name)


def nodes_in_order(graph: Graph) -> tuple[str, ...]:
    """Returns the nodes for whose sake the items of a graph go one after another; none: ()."""
    scopes = graph.scopes.inputs
    return tuple(
        node.name
        for node in graph.nodes.values()
        if (spec := node.spec) is not None
        and (
            spec.is_source
            or not any(graph.edges_from(node.name))  # an error that comes there is told of
            or ((spec.traits.may_keep or spec.is_per_stream) and len(scopes[node.name]) == 1)
        )
    )


def _part(graph: Graph, placement: PlacementConfig) -> Partition:
    """Returns a graph as one part."""
    entries = [
        Entry(name, (), tuple(edge.target for edge in graph.edges_from(name)))
        for name in graph.inputs
    ]
    first = {edge.target.node: edge.source for edge in reversed(graph.edges)}
    exits = [Exit(name, first[name]) for name in graph.outputs]
    nodes = tuple(node.name for node in graph.nodes.values() if node.role is Role.FLOWUNIT)
    name = _free(_FAR, {*graph.inputs, *graph.outputs})
    return Partition(name, placement, nodes, tuple(entries), tuple(exits), graph)


def _free(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


class _Spread(FlowUnit):
    """Gives what an output has got of each item, one after the other."""

    def process(self, ctx: Context) -> None:
        for buffer in ctx.input():
            several: Several = buffer.data
            ctx.emit(buffers_of((several.data, several.metas)))


class _Drop(FlowUnit):
    """Takes what has come to a node that nothing follows: it is counted, and errors are told of."""

    def process(self, ctx: Context) -> None:
        """Does nothing more."""


def _node(name: str, unit: type[FlowUnit], kind: Kind, *outputs: Port) -> Node:
    spec = FlowUnitSpec(
        name,
        {"cpu": unit},
        (Port("input"),),
        outputs,
        kind=kind,
        is_type_checked=False,
        inherits_meta=False,
    )
    return Node(name, Role.FLOWUNIT, spec, config=spec.configure({}))
