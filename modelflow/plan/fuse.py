"""Joins neighbours into one stage: those of one name, and those that only compute. Pure.

``decode [fuse=front]; resize [fuse=front]; decode -> resize``: one stage "decode" with two units;
its worker calls the second with what the first gave. Statistics and errors stay by node.

A stage in the middle of a chain costs a queue, a lock and often a thread switch for every batch,
and more threads than processors fight for these. Where the plan is free to choose (normal units on
the cpu that only compute, whose threads nobody has set), a stage that feeds the next and nothing
else takes it in. Units that may wait gain by threads of their own, so they keep them.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelflow.device import CPU
from modelflow.errors import PlanError
from modelflow.plan.chain import join, obstacle
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan, Target


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
            reason = obstacle(plan, before, stage)
            if reason:
                raise PlanError(
                    f"{locations[stage.name]}: node {stage.name!r}: fuse={name!r}: it cannot run "
                    f"with node {before.nodes[-1]!r}: {reason}"
                )
            del stages[stage.name]
            stage = join(before, stage, f"fuse={name}")  # noqa: PLW2901 - the chain so far
        chains[name] = stages[stage.name] = stage
    for name, chain in chains.items():
        if len(chain.units) == 1:
            raise PlanError(
                f"{locations[chain.name]}: node {chain.name!r}: fuse={name!r}: no other node bears "
                "this name; give it to the nodes that are to run as one, or leave it out"
            )
    return replace(plan, stages=stages) if chains else plan


# What a node may say that holds in a stage of several as well. All else, a new attribute among it,
# is meant for a stage of its own.
_OF_UNITS = frozenset(
    {"batch_size", "allowed_batch_sizes", "cpu_affinity", "placement", "is_exception_visible"}
)
_REASON = "[graph] fuse=auto"


def fuse_unasked(plan: ExecutionPlan, processors: int) -> ExecutionPlan:
    """Returns the plan with neighbours joined wherever nothing speaks for stages of their own.

    Args:
        plan: A stage a node, but for named chains, which stay as they are.
        processors: How many there are: as many threads at most are given to a chain, so that it may
            work at as many batches at once as its nodes did apart.
    """
    stages = dict(plan.stages)
    chains: dict[str, StagePlan] = {}
    for stage in plan.stages.values():
        if not _is_free(stage):
            continue
        before = chains.pop(_feeder(plan, stage), None)
        if before is not None and obstacle(plan, before, stage) is None:
            del stages[stage.name]
            stage = join(before, stage, _REASON)  # noqa: PLW2901 - the chain so far
        chains[stage.nodes[-1]] = stages[stage.name] = stage
    stages = {name: _with_threads(stage, processors) for name, stage in stages.items()}
    return replace(plan, stages=stages)


def _is_free(stage: StagePlan) -> bool:
    """Tells whether nothing that a node or unit says of itself asks for a stage of its own."""
    spec = stage.unit.spec
    if not (spec.kind.is_plain and spec.is_compute_bound):
        return False
    says = spec.is_shared or spec.kind.is_per_stream or spec.is_sink or spec.threads is not None
    is_on_cpu = all(device.kind == CPU.kind for device in stage.devices)
    return not says and is_on_cpu and stage.unit.settings.given <= _OF_UNITS


def _feeder(plan: ExecutionPlan, stage: StagePlan) -> str:
    """Returns the one stage that feeds it, ``""`` where there are several."""
    targets = (Target(stage.name, place) for place in range(len(stage.unit.inputs)))
    feeders = {feeder for target in targets for feeder in plan.feeders[target]}
    return feeders.pop() if len(feeders) == 1 else ""


def _with_threads(stage: StagePlan, processors: int) -> StagePlan:
    count = len(stage.units)
    threads = min(count * stage.threads, max(processors, stage.threads))
    if stage.chain_reason != _REASON or threads == stage.threads:
        return stage
    reason = f"those of {count} nodes, at most the processors"
    return replace(stage, threads=threads, threads_reason=reason)
