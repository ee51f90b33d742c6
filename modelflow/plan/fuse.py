"""Joins neighbours that bear the same name into one stage. Pure.

``decode [fuse=front]; resize [fuse=front]; decode -> resize``: one stage "decode" with two units;
its worker calls the second with what the first gave. Statistics and errors stay by node.
"""

from collections.abc import Mapping
from dataclasses import replace

from modelflow.errors import PlanError
from modelflow.plan.chain import join, obstacle
from modelflow.plan.execution_plan import ExecutionPlan, StagePlan


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
                message = (
                    f"{locations[stage.name]}: node {stage.name!r}: fuse={name!r}: it cannot run "
                    f"with node {before.nodes[-1]!r}: {reason}"
                )
                raise PlanError(message)
            del stages[stage.name]
            stage = join(before, stage, f"fuse={name}")  # noqa: PLW2901 - the chain so far
        chains[name] = stages[stage.name] = stage
    for name, chain in chains.items():
        if len(chain.units) == 1:
            message = (
                f"{locations[chain.name]}: node {chain.name!r}: fuse={name!r}: no other node bears "
                "this name; give it to the nodes that are to run as one, or leave it out"
            )
            raise PlanError(message)
    return replace(plan, stages=stages) if chains else plan
