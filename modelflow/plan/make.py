"""Makes the plan of a checked graph: threads, batches, queues, routes. Pure functions."""

import os

from modelflow.config.node_settings import DEFAULT_QUEUE_SIZE
from modelflow.device import CPU
from modelflow.errors import PlanError
from modelflow.graph.check.loops import find_between, successors_of
from modelflow.graph.check.scopes import Merge
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.plan.attributes import affinity, check_split_size, executor, read_allowed_sizes
from modelflow.plan.execution_plan import ExecutionPlan, MergePlan, StagePlan, Target, UnitPlan
from modelflow.plan.fuse import fuse, fuse_unasked
from modelflow.plan.origins import find_origins

# Most buffers of a session that wait where branches meet, before the condition waits.
MERGE_BOUND = 1024


def make_plan(
    graph: Graph, *, processors: int | None = None, is_fused: bool = True
) -> ExecutionPlan:
    """Returns the plan of a graph.

    Args:
        graph: A checked graph.
        processors: The number of processors. The default is the number that this process may use.
        is_fused: Whether to join neighbours as the graph requests. If False, every node has its own
            stage.

    Raises:
        PlanError: this version cannot run a node.
    """
    processors = processors or len(os.sched_getaffinity(0))
    maker = _Maker(graph)
    stages = {
        node.name: maker.stage(node, processors)
        for node in graph.nodes.values()
        if node.role is Role.FLOWUNIT
    }
    plan = ExecutionPlan(
        name=graph.name,
        stages=stages,
        entries={name: maker.route(name, name) for name in graph.inputs},
        outputs=graph.outputs,
        origins=find_origins(graph),
        max_in_flight=graph.max_in_flight,
        merges={maker.target(merge.edges[0]): maker.merge(merge) for merge in graph.scopes.merges},
    )
    if not is_fused:
        return plan
    plan = fuse(plan, {name: node.location for name, node in graph.nodes.items()})
    return fuse_unasked(plan, processors) if graph.config.graph.get("fuse") != "off" else plan


class _Maker:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._scopes = graph.scopes
        fed = {edge.target for edge in graph.edges}
        # The connected inputs of each node, in the order in which its unit declares them.
        self._inputs = {
            name: tuple([port for port in node.inputs if (name, port) in fed])
            for name, node in graph.nodes.items()
        }

    def stage(self, node: Node, processors: int) -> StagePlan:
        spec, settings = node.spec, node.settings
        assert spec is not None  # a flow unit node has one
        away = [str(device) for device in node.devices if device.kind != CPU.kind]
        if away and not spec.kind.is_plain:
            raise PlanError(
                f"{node.location}: node {node.name!r}: a {spec.kind} unit on {away[0]}; this "
                "version runs such units on the cpu"
            )
        inputs = self._inputs[node.name]
        queue_size = settings.queue_size or DEFAULT_QUEUE_SIZE
        batch_size = settings.batch_size or spec.batch_size or spec.kind.batch_size
        if spec.max_batch_size is not None:
            batch_size = min(batch_size, spec.max_batch_size)
        allowed = read_allowed_sizes(node, batch_size)
        if allowed and not settings.batch_size:
            batch_size = allowed[-1]
        check_split_size(node)
        threads, reason = _threads(node, queue_size, batch_size, processors)
        routes = tuple(self.route(node.name, port.name) for port in spec.outputs)
        unit = UnitPlan(
            node=node.name,
            spec=spec,
            config=node.config,
            settings=settings,
            inputs=inputs,
            consumers=tuple(map(len, routes)),
            is_exception_visible=spec.is_exception_visible
            and (settings.is_exception_visible or spec.is_exception_given),
            exit_port=self._exit_port(node),
            allowed_batch_sizes=allowed,
        )
        return StagePlan(
            units=(unit,),
            devices=node.devices,
            threads=threads,
            threads_reason=reason,
            batch_size=batch_size,
            bounds=tuple(settings.queue_sizes.get(port, queue_size) for port in inputs),
            routes=routes,
            depth=self._scopes.depth(node.name),
            marks=self._marks(node),
            moves=self._moves(node),
            delivered=self._deliver(node),
            cpu_affinity=affinity(node),
            executor=executor(node),
        )

    def _moves(self, node: Node) -> bool:
        edges = self._graph.edges_into(node.name)
        nodes = [node, *[self._graph.nodes[edge.source.node] for edge in edges]]
        return {device.kind for node in nodes for device in node.devices} != {CPU.kind}

    def _deliver(self, node: Node) -> frozenset[int]:
        outputs = self._graph.outputs
        leaving = {
            e.source.port for e in self._graph.edges_from(node.name) if e.target.node in outputs
        }
        return frozenset(place for place, port in enumerate(node.outputs) if port in leaving)

    def route(self, node: str, port: str) -> tuple[Target, ...]:
        edges = (edge for edge in self._graph.edges_from(node) if edge.source.port == port)
        # Branches may meet at once. Two edges from one output to one input are one target.
        return tuple(dict.fromkeys(map(self.target, edges)))

    def target(self, edge: Edge) -> Target:
        if edge in self._scopes.back:
            return Target(edge.target.node, 1)
        ports = self._inputs[edge.target.node]
        return Target(edge.target.node, ports.index(edge.target.port))

    def merge(self, merge: Merge) -> MergePlan:
        nodes = self._graph.nodes
        ways = successors_of(nodes, self._graph.edges)
        between = find_between(ways, [merge.condition], [merge.target.node])
        # A stream unit may keep buffers until it gets others, which must pass the condition first.
        is_keeping = any(nodes[name].kind.may_keep for name in between)
        return MergePlan(len(merge.edges), None if is_keeping else MERGE_BOUND)

    def _marks(self, node: Node) -> tuple[tuple[frozenset[int], Target], ...]:
        return tuple(
            (frozenset(map(node.outputs.index, merge.ports)), self.target(merge.edges[0]))
            for merge in self._scopes.merges
            if merge.condition == node.name
        )

    def _exit_port(self, node: Node) -> int:
        for place, port in enumerate(node.outputs):
            scope = self._scopes.outputs[Endpoint(node.name, port)]
            if not (scope[-1].is_loop and scope[-1].origin == node.name):
                return place
        return 0


def _threads(node: Node, queue_size: int, batch_size: int, processors: int) -> tuple[int, str]:
    spec = node.spec
    assert spec is not None
    off_cpu = sum(device.kind != "cpu" for device in node.devices)
    wanted = max(1, queue_size // batch_size)
    rules: tuple[tuple[object, int | None, str], ...] = (
        (spec.is_source, 1, "a source"),
        (node.settings.threads is not None, node.settings.threads, "as the node says"),
        (spec.threads is not None, spec.threads, "as the unit says"),
        (spec.is_sink, 1, "a sink: its effects in order"),
        (off_cpu == len(node.devices), 2 * off_cpu, "2 a device"),
        (spec.is_shared, len(node.devices) + off_cpu, "shared: 1 a CPU, 2 any other device"),
        (wanted <= processors, wanted, "queue / batch"),
    )
    for applies, threads, reason in rules:
        if applies and threads is not None:
            return threads, reason
    return processors, "the processors"
