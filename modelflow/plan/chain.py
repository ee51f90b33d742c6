"""Joins two stages into a single stage without a queue between them. Pure functions."""

from collections import Counter
from dataclasses import replace

from modelflow.plan.execution_plan import ExecutionPlan, StagePlan, Target

OF_QUEUES = (
    "queue_size",
    "queue_bytes",
    "queue_sizes",
    "queue_policy",
    "batch_timeout_ms",
    "split_size",
)
"""The attributes of a queue. A node inside a chain has no queue."""


def obstacle(plan: ExecutionPlan, before: StagePlan, stage: StagePlan) -> str | None:
    """Returns why a stage cannot continue with another stage, or None if nothing prevents this.

    Args:
        plan: The whole plan, which names all nodes that feed the two.
        before: The first stage.
        stage: The next stage, of one unit.
    """
    for unit in (before.units[-1], stage.unit):
        if not unit.spec.kind.is_plain:
            return f"unit {unit.spec.name!r} is a {unit.spec.kind} unit; chains are of normal units"
    targets = [target for route in before.routes for target in route]
    wanted = {Target(stage.name, place) for place in range(len(stage.unit.inputs))}
    feeders = {feeder for target in wanted for feeder in plan.feeders[target]}
    is_alone = Counter(targets) == Counter(wanted) and feeders == {before.nodes[-1]}
    if not is_alone or wanted & plan.merges.keys():
        return (
            f"{before.nodes[-1]!r} must feed {stage.name!r} and nothing else, each output one "
            "input, and nothing else may feed it"
        )
    for what in ("threads", "batch_size", "devices", "cpu_affinity", "executor"):
        one, other = getattr(before, what), getattr(stage, what)
        if one != other:
            return f"{what} differ: {_show(one)} and {_show(other)}; say the same for both"
    given = stage.unit.settings.given
    own = [key for key in OF_QUEUES if key in given]
    return f"it has no queue of its own there; leave {own[0]} out" if own else None


def join(before: StagePlan, stage: StagePlan, reason: str) -> StagePlan:
    """Returns the two stages as one stage with the name of the first.

    Args:
        before: A stage that can continue with the other; see `obstacle`.
        stage: The other stage.
        reason: Why they are one stage, for readers of the plan.
    """
    places = {target.port: place for place, route in enumerate(before.routes) for target in route}
    sources = tuple(places[port] for port in range(len(stage.unit.inputs)))
    return replace(
        stage,
        units=(*before.units, replace(stage.unit, sources=sources)),
        threads_reason=before.threads_reason,
        bounds=before.bounds,
        moves=before.moves or stage.moves,
        chain_reason=reason,
    )


def _show(value: object) -> str:
    if isinstance(value, tuple | frozenset):
        return ", ".join(map(str, sorted(value, key=str))) or "any"
    return str(value)
