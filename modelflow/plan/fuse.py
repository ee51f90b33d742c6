"""Joins neighbours into one stage: no queue and no other thread between them. Pure.

``decode [fuse=front]; resize [fuse=front]; decode -> resize``: one stage "decode" with two units;
its worker calls the second with what the first gave. Statistics and errors stay by node.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelflow.errors import PlanError
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan, Target

__all__ = ["fuse"]

# What belongs to a queue; a node inside a chain has none.
_OF_QUEUES = (
    "queue_size",
    "queue_bytes",
    "queue_sizes",
    "queue_policy",
    "batch_timeout_ms",
    "split_size",
)


def fuse(plan: ExecutionPlan, locations: Mapping[str, object]) -> ExecutionPlan:
    """Returns the plan with every chain of nodes that bear the same ``fuse`` as one stage.

    Args:
        plan: A stage a node.
        locations: Where each node is written, for errors.

    Raises:
        PlanError: nodes that bear the same name cannot run as one; the reason is given.
    """
    chains: dict[str, StagePlan] = {}
    stages = dict(plan.stages)
    for stage in plan.stages.values():
        name = stage.unit.settings.fuse
        if not name:
            continue
        before = chains.get(name)
        if before is not None:
            reason = _obstacle(plan, before, stage)
            if reason:
                message = (
                    f"{locations[stage.name]}: node {stage.name!r}: fuse={name!r}: it cannot run "
                    f"with node {before.nodes[-1]!r}: {reason}"
                )
                raise PlanError(message)
            del stages[stage.name]
            stage = _joined(before, stage)  # noqa: PLW2901 - the chain so far
        chains[name] = stages[stage.name] = stage
    for name, chain in chains.items():
        if len(chain.units) == 1:
            message = (
                f"{locations[chain.name]}: node {chain.name!r}: fuse={name!r}: no other node bears "
                "this name; give it to the nodes that are to run as one, or leave it out"
            )
            raise PlanError(message)
    return replace(plan, stages=stages) if chains else plan


def _obstacle(plan: ExecutionPlan, before: StagePlan, stage: StagePlan) -> str | None:
    """Returns why a stage cannot go on where another ends; None: it can."""
    for unit in (before.units[-1], stage.unit):
        if unit.spec.is_source or not unit.spec.kind.traits.is_plain:
            kind = "source" if unit.spec.is_source else f"{unit.spec.kind} unit"
            return f"unit {unit.spec.name!r} is a {kind}; chains are of normal units"
    targets = [target for route in before.routes for target in route]
    wanted = {Target(stage.name, place) for place in range(len(stage.unit.inputs))}
    fed = [target for targets in plan.entries.values() for target in targets]
    fed += [
        target
        for other in plan.stages.values()
        if other.name not in before.nodes
        for route in other.routes
        for target in route
    ]
    if sorted(targets, key=str) != sorted(wanted, key=str) or wanted & {*fed, *plan.merges}:
        return (
            f"{before.nodes[-1]!r} must feed {stage.name!r} and nothing else, each output one "
            "input, and nothing else may feed it"
        )
    for what in ("threads", "batch_size", "devices", "cpu_affinity", "executor"):
        one, other = getattr(before, what), getattr(stage, what)
        if one != other:
            return f"{what} differ: {_shown(one)} and {_shown(other)}; say the same for both"
    own = next((key for key in _OF_QUEUES if _says(stage, key)), None)
    if own is not None:
        return f"it has no queue of its own there; leave {own} out"
    return None


def _says(stage: StagePlan, key: str) -> bool:
    settings = stage.unit.settings
    return bool(getattr(settings, key) != getattr(type(settings)(), key))


def _joined(before: StagePlan, stage: StagePlan) -> StagePlan:
    places = {target.port: place for place, route in enumerate(before.routes) for target in route}
    sources = tuple(places[port] for port in range(len(stage.unit.inputs)))
    return replace(
        stage,
        units=(*before.units, replace(stage.unit, sources=sources)),
        threads_reason=before.threads_reason,
        bounds=before.bounds,
        moves=before.moves or stage.moves,
    )


def _shown(value: object) -> str:
    if isinstance(value, tuple | frozenset):
        return ", ".join(map(str, sorted(value, key=str))) or "any"
    return str(value)
