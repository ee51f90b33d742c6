"""Placement of a graph's nodes on replicas, by the nodes' attributes or as a whole.

If the items of a graph are independent, each replica runs the whole graph (`whole`). The local
graph then has only its inputs and outputs and one remote node. Each item is a request to a replica
with room. Conditions, loops and expanded streams run inside the replica. An output may have any
number of results for an item. They return as one value, which a local node spreads out again, and
so results keep the order of the items.

Some nodes see one item after another: stream units, sinks, sources, and units that are called
stream by stream. Such nodes stay in the local graph, and the others are placed as far as possible
(`spread`). Example: ``decode -> track -> draw`` and ``decode -> draw``, with ``track`` a stream
unit. The first attempt places ``decode`` and ``draw``. `find_partitions` refuses the placement with
a finding at ``decode``, because of the way out and back in over ``track``. The second attempt keeps
``decode`` local and places ``draw`` alone, which is valid. Each attempt keeps another node local,
so the search ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.errors import GraphError, PlanError
from modelflow.graph.check.loops import reach, successors_of
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.graph.read import Source, read_graph
from modelflow.plan.origins import find_origins
from modelflow.plan.partition import Entry, Exit, Partition, find_partitions, front_of, graph_of
from modelflow.remote.engine import PlacementEngine
from modelflow.remote.message import Several, buffers_of
from modelflow.remote.part import part_of
from modelflow.remote.remote_unit import remote_spec
from modelflow.unit.kind import Stream
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit


def nodes_in_order(graph: Graph) -> tuple[str, ...]:
    """Returns the nodes that must see the items of a graph in order."""
    scopes = graph.scopes.inputs
    return tuple(
        node.name
        for node in graph.nodes.values()
        if (spec := node.spec) is not None
        and (
            spec.is_source
            or not graph.edges_from(node.name)  # a sink, whose errors are logged
            or ((spec.kind.may_keep or spec.kind.is_per_stream) and len(scopes[node.name]) == 1)
        )
    )


def is_by_item(graph: Graph) -> bool:
    """Returns whether each item of a graph is an independent request with all inputs."""
    ways = successors_of(graph.nodes, graph.edges)
    return not nodes_in_order(graph) and all(
        reach(ways, [name]).issuperset(graph.outputs) for name in graph.inputs
    )


def spread(graph: Graph, placement: PlacementConfig) -> tuple[Graph, tuple[Partition, ...]]:
    """Places every node that can be placed, except the nodes that need items in order.

    Args:
        graph: A graph without placements.
        placement: The placement for the nodes.

    Returns:
        The graph with the placement in its nodes, and its partitions.
    """
    here = set(nodes_in_order(graph))
    while True:
        nodes = {
            node.name: node
            if node.name in here or node.spec is None
            else replace(node, settings=replace(node.settings, placement=placement.name))
            for node in graph.nodes.values()
        }
        config = replace(graph.config, placements={placement.name: placement})
        found = replace(graph, nodes=nodes, config=config)
        try:
            return found, find_partitions(found)
        except GraphError as error:
            named = {finding.node for finding in error.findings} - here
            if not named:
                raise
            here.update(node for node in named if node is not None)


def whole(
    graph: Graph, engine: PlacementEngine, placement: PlacementConfig, units: Iterable[Any] = ()
) -> Graph:
    """Returns a graph for `Flow` that sends each item to a replica of a whole graph.

    Args:
        graph: A graph without placements, for which `is_by_item` is true.
        engine: The engine that runs the replicas.
        placement: The settings of the replicas.
        units: Flow units that are defined only in the caller's code; they are sent to the replicas.

    Raises:
        PlanError: The graph was made in code, and has no configuration to send.
    """
    part = _part(graph, placement)
    spec = remote_spec(part, engine.pool(placement, [part_of(part, tuple(units))]))
    # An input in error is sent as well. The graph decides which outputs get the error.
    settings = replace(part.settings, is_exception_visible=True)
    far = Node(part.name, Role.FLOWUNIT, spec, config=spec.configure({}), settings=settings)
    single = find_origins(graph)[""].single_outputs
    nodes = {name: Node(name, Role.INPUT) for name in graph.inputs} | {far.name: far}
    nodes |= {name: Node(name, Role.OUTPUT) for name in graph.outputs}
    edges = [Edge(Endpoint(name, name), Endpoint(far.name, name)) for name in graph.inputs]
    for name in graph.outputs:
        source = Endpoint(far.name, name)
        if name not in single:
            node = _spreading(_free(f"{name}_each", nodes))
            nodes[node.name] = node
            edges.append(Edge(source, Endpoint(node.name, "input")))
            source = Endpoint(node.name, "output")
        edges.append(Edge(source, Endpoint(name, name)))
    return graph_of(graph, nodes, tuple(edges), graph.name)


def _part(graph: Graph, placement: PlacementConfig) -> Partition:
    """Returns the whole graph as one partition."""
    entries = [
        Entry(name, (), tuple(edge.target for edge in graph.edges_from(name)))
        for name in graph.inputs
    ]
    first = {edge.target.node: edge.source for edge in reversed(graph.edges)}
    exits = [Exit(name, first[name]) for name in graph.outputs]
    nodes = tuple(node.name for node in graph.nodes.values() if node.role is Role.FLOWUNIT)
    name = _free(graph.name, {*graph.inputs, *graph.outputs})
    return Partition(name, placement, nodes, tuple(entries), tuple(exits), graph)


def _free(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


class _Spread(FlowUnit):
    """A flow unit that emits the results of an output, item by item."""

    def process(self, ctx: Context) -> None:
        for buffer in ctx.input():
            several: Several = buffer.data
            ctx.emit(buffers_of(several))


def _spreading(name: str) -> Node:
    spec = FlowUnitSpec(
        "spread",
        {"cpu": _Spread},
        (Port("input"),),
        (Port("output"),),
        kind=Stream(),
        is_type_checked=False,
        inherits_meta=False,
    )
    return Node(name, Role.FLOWUNIT, spec, config=spec.configure({}))


def place_nodes(
    source: Source | Graph,
    engine: PlacementEngine,
    *,
    overrides: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    units: Iterable[Any] = (),
    default: PlacementConfig | None = None,
) -> Graph:
    """Returns a graph for `Flow` whose placed nodes run in the replicas of an engine.

    ::

        with Flow(place_nodes("graph.toml", ProcessEngine())) as flow:
            answer = flow.infer(jpeg)

    The behaviour of nodes does not change: order, sessions, errors and deadlines are as on one
    machine. The replicas start with the flow and end with it.

    Args:
        source: The graph, as for `Flow`.
        engine: The engine that runs the parts.
        overrides: As for `Flow`; not with a `Graph`.
        args: As for `Flow`; not with a `Graph`.
        units: Flow units that are defined only in the caller's code; they are sent to the parts.
        default: The placement for a graph without placements. Each replica then runs the whole
            graph. If the graph has `nodes_in_order`, only the other nodes are placed, or none.

    Raises:
        ConfigError, GraphError: The graph is wrong, or the placed nodes cannot be cut out.
        PlanError: No node has a placement, and `default` is None.
    """
    units = tuple(units)
    if isinstance(source, Graph):
        graph = source
    else:
        graph = read_graph(source, overrides=overrides, args=args, units=units, check_devices=False)
    partitions = find_partitions(graph)
    if not partitions and default is not None:
        if is_by_item(graph):
            return whole(graph, engine, default, units)
        graph, partitions = spread(graph, default)
        if not partitions:
            return graph
    if not partitions:
        known = ", ".join(graph.config.placements) or "none"
        raise PlanError(
            f"graph {graph.name!r}: no node is placed; give nodes placement=NAME, as declared in "
            f"[placement.NAME] (there: {known})"
        )
    together: dict[str, list[Partition]] = {}
    for partition in partitions:
        together.setdefault(partition.placement.name, []).append(partition)
    pools = {}
    for name, parts in together.items():
        sent = [part_of(partition, units) for partition in parts]
        pools[name] = engine.pool(parts[0].placement, sent)
    return front_of(graph, partitions, lambda part: remote_spec(part, pools[part.placement.name]))
