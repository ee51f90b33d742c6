"""From a graph that says what is placed where to the graph in front."""

from collections.abc import Iterable, Mapping
from typing import Any

from modelflow.config.placement import PlacementConfig
from modelflow.errors import PlanError
from modelflow.graph.graph import Graph
from modelflow.graph.read import Source, read_graph
from modelflow.plan.placement import Partition, find_partitions, front_of
from modelflow.remote.engine import Engine
from modelflow.remote.part import part_of
from modelflow.remote.remote_unit import remote_spec
from modelflow.remote.whole import is_by_item, spread, whole

__all__ = ["placed"]


def placed(
    source: Source | Graph,
    engine: Engine,
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
        message = (
            f"graph {graph.name!r}: no node is placed; give nodes placement=NAME, as declared in "
            f"[placement.NAME] (there: {known})"
        )
        raise PlanError(message)
    together: dict[str, list[Partition]] = {}
    for partition in partitions:
        together.setdefault(partition.placement.name, []).append(partition)
    pools = {}
    for name, parts in together.items():
        sent = [part_of(partition, units) for partition in parts]
        pools[name] = engine.pool(parts[0].placement, sent)
    return front_of(graph, partitions, lambda part: remote_spec(part, pools[part.placement.name]))
