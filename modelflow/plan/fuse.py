"""Joins nodes with a common ``fuse`` name, and nodes that only compute. Pure functions.

In ``decode [fuse=front]; resize [fuse=front]; decode -> resize`` the stage "decode" has two units.
Its worker calls the second with the results of the first. Statistics and errors stay separate for
each node.

A stage in the middle of a chain costs a queue, a lock and often a thread switch for every batch.
Its threads also compete for the processors. The plan therefore joins stages in which nothing
forbids it: normal units on the cpu that only compute, without a given number of threads. The second
stage must be the only one that the first stage feeds. Units that may wait keep their own threads,
because they gain from them.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelflow.device import CPU
from modelflow.errors import PlanError
from modelflow.plan.chain import join, obstacle
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan, Target


def fuse(plan: ExecutionPlan, locations: Mapping[str, object]) -> ExecutionPlan:
    """Returns the plan with every chain of nodes with the same ``fuse`` as one stage.

    Args:
        plan: A plan with one stage for each node.
        locations: The position of each node in the graph file, for errors.

    Raises:
        PlanError: nodes with the same name cannot run as one. The message has the reason.
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


# Attributes that do not prevent a common stage. A node with any other attribute, also a new one,
# keeps its own stage.
_OF_UNITS = frozenset(
    {"batch_size", "allowed_batch_sizes", "cpu_affinity", "placement", "is_exception_visible"}
)
_REASON = "[graph] fuse=auto"


def fuse_unasked(plan: ExecutionPlan, processors: int) -> ExecutionPlan:
    """Returns the plan with neighbours joined if nothing requires separate stages.

    Args:
        plan: A plan with one stage for each node, except named chains, which stay unchanged.
        processors: The number of processors, which limits the threads of a chain. A chain gets the
            threads of its nodes to process as many batches at once as before.
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
    """Tells whether no attribute of the node or the unit requires a separate stage."""
    spec = stage.unit.spec
    if not (spec.kind.is_plain and spec.is_compute_bound):
        return False
    says = spec.is_shared or spec.kind.is_per_stream or spec.is_sink or spec.threads is not None
    is_on_cpu = all(device.kind == CPU.kind for device in stage.devices)
    return not says and is_on_cpu and stage.unit.settings.given <= _OF_UNITS


def _feeder(plan: ExecutionPlan, stage: StagePlan) -> str:
    """Returns the only stage that feeds ``stage``, or ``""`` for several."""
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
