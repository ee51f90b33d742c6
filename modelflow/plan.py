"""What will run where: threads, batches, queues, routes, chosen from a checked graph. Pure."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelflow.device import Device
from modelflow.errors import PlanError
from modelflow.flowunit.spec import FlowUnitSpec, Kind
from modelflow.graph.graph import Graph, Node, Role

__all__ = ["ExecutionPlan", "Origin", "StagePlan", "Target", "make_plan"]

DEFAULT_QUEUE_SIZE = 32
DEFAULT_BATCH_SIZE = 8


@dataclass(frozen=True, slots=True)
class Target:
    """An input that an output feeds: the node (or graph output), and the place of its port."""

    node: str
    port: int


@dataclass(frozen=True)
class StagePlan:
    """One node as it will run.

    Attributes:
        node: Its name.
        spec: The unit.
        config: The unit's options, converted: what ``open`` gets.
        devices: Its devices; worker N runs on number N modulo their count.
        threads: How many workers.
        threads_reason: Why that many.
        batch_size: Most rows in a call.
        batch_timeout: Longest wait in seconds for a fuller batch.
        inputs: The connected input ports.
        bounds: For each of them, the queue's bound in rows.
        byte_bound: A second bound in bytes, or None.
        is_rejecting: ``queue_policy=reject``.
        routes: For each output port of the unit, what it feeds.
        is_exception_visible: The unit is given buffers in error.
    """

    node: str
    spec: FlowUnitSpec
    config: Any
    devices: tuple[Device, ...]
    threads: int
    threads_reason: str
    batch_size: int
    batch_timeout: float
    inputs: tuple[str, ...]
    bounds: tuple[int, ...]
    byte_bound: int | None
    is_rejecting: bool
    routes: tuple[tuple[Target, ...], ...]
    is_exception_visible: bool

    @property
    def is_terminal(self) -> bool:
        """Tells whether nothing follows: data leaves the graph here."""
        return not any(self.routes)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where streams begin (the graph's inputs together, or one source) and where they can end.

    Attributes:
        outputs: The graph outputs that can be reached.
        terminals: Those, and the nodes that nothing follows.
    """

    outputs: tuple[str, ...]
    terminals: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionPlan:
    """A graph as it will run.

    Attributes:
        name: The flow's name.
        stages: By node, in topological order.
        entries: Graph input -> what it feeds.
        outputs: The graph's outputs.
        origins: Source node -> its `Origin`; ``""`` for the graph's own inputs, where it has any.
        max_in_flight: Most rows inside the graph at once, or None.
    """

    name: str
    stages: Mapping[str, StagePlan]
    entries: Mapping[str, tuple[Target, ...]]
    outputs: tuple[str, ...]
    origins: Mapping[str, Origin]
    max_in_flight: int | None

    def rows(self) -> list[dict[str, str]]:
        """Explains the plan as a table: one row a node, the same columns in each."""
        return [
            {
                "node": stage.node,
                "unit": stage.spec.name,
                "device": ", ".join(map(str, stage.devices)),
                "threads": f"{stage.threads} ({stage.threads_reason})",
                "batch": str(stage.batch_size)
                + (f", waits {stage.batch_timeout * 1e3:g} ms" if stage.batch_timeout else ""),
                "queue": ", ".join(
                    f"{port} {bound}"
                    for port, bound in zip(stage.inputs, stage.bounds, strict=True)
                )
                or "-",
                "feeds": ", ".join(target.node for route in stage.routes for target in route)
                or "-",
            }
            for stage in self.stages.values()
        ]


def make_plan(graph: Graph, *, processors: int | None = None) -> ExecutionPlan:
    """Decides what runs where.

    Args:
        graph: A checked graph.
        processors: How many processors to plan for; those that this process may use if None.

    Raises:
        PlanError: this version cannot run a node.
    """
    processors = processors or len(os.sched_getaffinity(0))
    stages = {
        node.name: _stage(graph, node, processors)
        for node in graph.nodes.values()
        if node.role is Role.FLOWUNIT
    }
    entries = {name: _route(graph, name, name) for name in graph.inputs}
    plan = ExecutionPlan(
        name=graph.name,
        stages=stages,
        entries=entries,
        outputs=graph.outputs,
        origins={},
        max_in_flight=graph.max_in_flight,
    )
    origins = {
        stage.node: _origin(plan, [target for route in stage.routes for target in route], stage)
        for stage in stages.values()
        if stage.spec.is_source
    }
    if entries:
        origins[""] = _origin(plan, [target for route in entries.values() for target in route])
    return ExecutionPlan(**{**plan.__dict__, "origins": origins})


def _stage(graph: Graph, node: Node, processors: int) -> StagePlan:
    spec, settings = node.spec, node.settings
    assert spec is not None  # a flow unit node has one
    if spec.kind is not Kind.NORMAL:
        message = (
            f"{node.location}: node {node.name!r}: unit {spec.name!r} is of the kind "
            f"'{spec.kind}'; this version runs 'normal' units, sources and sinks"
        )
        raise PlanError(message)
    if settings.workers != "thread":
        message = (
            f"{node.location}: node {node.name!r}: workers={settings.workers!r}; "
            "this version runs workers='thread'"
        )
        raise PlanError(message)
    connected = {edge.target.port for edge in graph.edges_into(node.name)}
    inputs = tuple(port for port in node.inputs if port in connected)
    queue_size = settings.queue_size or DEFAULT_QUEUE_SIZE
    batch_size = settings.batch_size or spec.batch_size or DEFAULT_BATCH_SIZE
    if spec.max_batch_size is not None:
        batch_size = min(batch_size, spec.max_batch_size)
    threads, reason = _threads(node, queue_size, batch_size, processors)
    return StagePlan(
        node=node.name,
        spec=spec,
        config=spec.configure(node.options),
        devices=node.devices,
        threads=threads,
        threads_reason=reason,
        batch_size=batch_size,
        batch_timeout=settings.batch_timeout_ms / 1e3,
        inputs=inputs,
        bounds=tuple(settings.queue_sizes.get(port, queue_size) for port in inputs),
        byte_bound=settings.queue_bytes,
        is_rejecting=settings.queue_policy == "reject",
        routes=tuple(_route(graph, node.name, port.name) for port in spec.outputs),
        is_exception_visible=settings.is_exception_visible and spec.is_exception_visible,
    )


def _threads(node: Node, queue_size: int, batch_size: int, processors: int) -> tuple[int, str]:
    spec = node.spec
    assert spec is not None
    on_gpu = sum(device.kind != "cpu" for device in node.devices)
    wanted = max(1, queue_size // batch_size)
    rules: tuple[tuple[object, int | None, str], ...] = (
        (spec.is_source, 1, "a source"),
        (node.settings.threads is not None, node.settings.threads, "as the node says"),
        (spec.threads is not None, spec.threads, "as the unit says"),
        (spec.is_sink, 1, "a sink: its effects in order"),
        (spec.is_shared, len(node.devices) + on_gpu, "shared: 1 a CPU, 2 a GPU"),
        (wanted <= processors, wanted, "queue / batch"),
    )
    for applies, threads, reason in rules:
        if applies and threads is not None:
            return threads, reason
    return processors, "the processors"


def _route(graph: Graph, node: str, port: str) -> tuple[Target, ...]:
    found = []
    for edge in graph.edges_from(node):
        if edge.source.port == port:
            name = edge.target.node
            connected = {into.target.port for into in graph.edges_into(name)}
            ports = [p for p in graph.nodes[name].inputs if p in connected]
            found.append(Target(name, ports.index(edge.target.port)))
    return tuple(found)


def _origin(plan: ExecutionPlan, first: list[Target], source: StagePlan | None = None) -> Origin:
    reached: dict[str, None] = {source.node: None} if source is not None else {}
    waiting = list(first)
    while waiting:
        name = waiting.pop().node
        if name not in reached:
            reached[name] = None
            if name in plan.stages:
                waiting += [target for route in plan.stages[name].routes for target in route]
    outputs = tuple(name for name in plan.outputs if name in reached)
    last = tuple(name for name in plan.stages if name in reached and plan.stages[name].is_terminal)
    return Origin(outputs, outputs + last)
