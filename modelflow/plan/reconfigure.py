"""Changes the plan of a running flow: batches, queues, threads, rows in flight. Pure functions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from modelflow.config.node_settings import NodeOptions
from modelflow.config.override import IN_FLIGHT, split_target
from modelflow.errors import ConfigError, PlanError, did_you_mean
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan
from modelflow.unit.option import options_of

_QUEUE_OF_PORT = "queue_size_"
_OPTIONS = {option.name: option for option in options_of(NodeOptions)}
_CHANGEABLE = ("batch_size", "batch_timeout_ms", "queue_size", "queue_bytes", "threads")


def reconfigure_plan(plan: ExecutionPlan, changes: Mapping[str, Any]) -> ExecutionPlan:
    """Returns a plan with changes that are possible while the flow runs.

    Args:
        plan: The present plan.
        changes: ``{"node.attribute": value}``, as ``--set`` has them. Attributes are
            ``batch_size``, ``batch_timeout_ms``, ``queue_size``, ``queue_size_PORT``,
            ``queue_bytes`` and ``threads``. The key ``{"max_in_flight": rows}`` belongs to the
            flow.

    Raises:
        ConfigError: the node or attribute does not exist, or the value has another type.
        PlanError: the attribute cannot be changed while the flow runs.
    """
    stages, most = dict(plan.stages), plan.max_in_flight
    for target, value in changes.items():
        if target == IN_FLIGHT:
            most = _in_flight(plan, value)
            continue
        name, key, converted = _read(plan, target, value)
        stages[name] = _change(stages[name], key, converted)
    for stage in stages.values():
        _check(stage)
    return replace(plan, stages=stages, max_in_flight=most)


def _read(plan: ExecutionPlan, target: str, value: Any) -> tuple[str, str, Any]:
    """Parses one change into the stage, the attribute, and the converted value."""
    nodes = plan.nodes
    node, key = split_target(target, nodes)
    if node not in nodes:
        near = did_you_mean(node, [*nodes, IN_FLIGHT])
        raise ConfigError(f"{target}: there is no node {node!r}{near} (nodes: {', '.join(nodes)})")
    stage = nodes[node]
    option = key
    if key.startswith(_QUEUE_OF_PORT) and key[len(_QUEUE_OF_PORT) :] in stage.unit.inputs:
        option = "queue_size"
    if option not in _CHANGEABLE:
        near = did_you_mean(key, _CHANGEABLE)
        raise (PlanError if key in _OPTIONS else ConfigError)(
            f"{target}: cannot be changed while the flow runs{near} (changeable: "
            f"{', '.join(_CHANGEABLE)})"
        )
    if node != stage.name:
        raise PlanError(
            f"{target}: {node} runs on the threads of {stage.name}, as one stage; change "
            f"{stage.name}.{key}"
        )
    converted = _OPTIONS[option].convert(value, target)
    if converted is None:
        raise ConfigError(f"{target}: got no value; expected {_OPTIONS[option].help}")
    return stage.name, key, converted


def _change(stage: StagePlan, key: str, value: Any) -> StagePlan:
    """Returns a stage with one change."""
    unit, settings = stage.unit, stage.unit.settings
    if key == "threads":
        stage = replace(stage, threads=value, threads_reason="changed while running")
    elif key == "batch_size":
        stage = replace(stage, batch_size=value)
    elif key == "queue_size":
        bounds = tuple(settings.queue_sizes.get(port, value) for port in unit.inputs)
        stage = replace(stage, bounds=bounds)
    if key.startswith(_QUEUE_OF_PORT):
        own = {key[len(_QUEUE_OF_PORT) :]: value}
        settings = replace(settings, queue_sizes={**settings.queue_sizes, **own})
        ports = zip(unit.inputs, stage.bounds, strict=True)
        stage = replace(stage, bounds=tuple(own.get(port, bound) for port, bound in ports))
    else:
        settings = replace(settings, **{key: value})
    return replace(stage, units=(replace(unit, settings=settings), *stage.units[1:]))


def _in_flight(plan: ExecutionPlan, value: Any) -> int:
    if plan.max_in_flight is None:
        raise PlanError(
            f"{IN_FLIGHT}: the flow was started without a bound, and does not count its rows; "
            f"give [flow] {IN_FLIGHT} in the graph file"
        )
    return int(_OPTIONS["queue_size"].convert(value, IN_FLIGHT))


def _check(stage: StagePlan) -> None:
    """Checks the limits of the units.

    Raises:
        PlanError: a unit does not support the batch size or the number of threads.
    """
    for unit in stage.units:
        most = unit.largest_batch
        if most is not None and stage.batch_size > most:
            raise PlanError(
                f"{stage.name}.batch_size: got {stage.batch_size}; unit {unit.spec.name!r} takes "
                f"at most {most}"
            )
    if stage.unit.spec.is_source and stage.threads != 1:
        raise PlanError(f"{stage.name}.threads: got {stage.threads}; a source has 1")
