"""Joins neighbours that nobody has named into one stage: ``[graph] fuse="auto"``. Pure.

A stage in the middle of a chain costs a queue, a lock and often a thread switch for every batch,
and more threads than processors fight for these. Where the plan is free to choose (normal units on
the cpu that only compute, whose threads nobody has set), a stage that feeds the next and nothing
else takes it in. Units that may wait gain by threads of their own, so they keep them.
"""

from dataclasses import replace

from modelflow.device import CPU
from modelflow.plan.chain import OF_QUEUES, join, obstacle
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan, Target

# What a node says of its own threads or queue is meant for a stage of its own.
_OWN = frozenset({*OF_QUEUES, "threads", "workers", "fuse"})
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
    if spec.is_source or not (spec.kind.traits.is_plain and spec.is_compute_bound):
        return False
    says = spec.is_shared or spec.is_per_stream or spec.is_sink or spec.threads is not None
    is_on_cpu = all(device.kind == CPU.kind for device in stage.devices)
    return not says and is_on_cpu and not _OWN & stage.unit.settings.given


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
