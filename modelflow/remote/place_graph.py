"""From a graph to the graph in front of its remote parts, placed by name or as a whole.

Where items have nothing to do with one another, each replica runs the whole graph: in front are its
inputs and outputs and one far node, and each item is a request of its own in whichever replica has
room. Conditions, loops and whatever an expand begins run there as here. What an output gets of an
item, none or many, crosses as one value, which a node behind the far one spreads out again, so that
results are in the order of the items.

Where a node sees one item after another (a stream unit, a sink, a source, one that is called stream
by stream) it stays in front, and all others are placed, as far as that is possible.
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
    """Returns the nodes for whose sake the items of a graph go one after another; none: ()."""
    scopes = graph.scopes.inputs
    return tuple(
        node.name
        for node in graph.nodes.values()
        if (spec := node.spec) is not None
        and (
            spec.is_source
            or not graph.edges_from(node.name)  # an error that comes there is told of
            or ((spec.kind.may_keep or spec.kind.is_per_stream) and len(scopes[node.name]) == 1)
        )
    )


def is_by_item(graph: Graph) -> bool:
    """Tells whether the items of a graph are requests of their own, each with all its inputs."""
    ways = successors_of(graph.nodes, graph.edges)
    return not nodes_in_order(graph) and all(
        reach(ways, [name]).issuperset(graph.outputs) for name in graph.inputs
    )


def spread(graph: Graph, placement: PlacementConfig) -> tuple[Graph, tuple[Partition, ...]]:
    """Places everything of a graph that can be, but the nodes in order.

    Args:
        graph: Places nothing.
        placement: Where.

    Returns:
        The graph that says so, and its partitions.
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
    """Returns a graph for `Flow` whose items go through replicas of a whole graph.

    Args:
        graph: Places nothing, and `is_by_item`.
        engine: Where the replicas run.
        placement: How many there are, what each takes, how it is asked.
        units: Flow units that only the caller's code knows. They are sent to the replicas.

    Raises:
        PlanError: the graph has no text that could be sent.
    """
    part = _part(graph, placement)
    spec = remote_spec(part, engine.pool(placement, [part_of(part, tuple(units))]))
    # An error that comes in goes the way that it goes here, which not every output may lie on.
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
    """Returns a graph as one part."""
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
    """Gives what an output has got of each item, one after the other."""

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


def placed(
    source: Source | Graph,
    engine: PlacementEngine,
    *,
    overrides: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    units: Iterable[Any] = (),
    default: PlacementConfig | None = None,
) -> Graph:
    """Returns a graph for `Flow` whose placed nodes run where an engine runs them.

    ::

        with Flow(placed("graph.toml", ProcessEngine())) as flow:
            answer = flow.infer(jpeg)

    What each node means does not change: order, sessions, errors, deadlines are as on one machine.
    The replicas start with the flow and end with it.

    Args:
        source: As for `Flow`.
        engine: Where the parts run.
        overrides: As for `Flow`; not beside a `Graph`.
        args: The same.
        units: Flow units that only the caller's code knows. They are sent to the parts.
        default: What runs a graph that places nothing: each replica the whole of it, or where
            `nodes_in_order` are in it, what else can be placed; if nothing can, all runs here.

    Raises:
        ConfigError, GraphError: the graph is wrong, or what is placed cannot be cut out.
        PlanError: nothing is placed, and there is no default.
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
