"""The plan of a flow, chosen from a checked graph before anything runs.

In: a `Graph`. Out: an `ExecutionPlan` of frozen `StagePlan` values, each with its reason.

The module ``make.py`` chooses threads, batches, queues and routes. In ``fuse.py`` neighbours are
joined into one stage. With ``origins.py`` the plan knows where streams begin, and which outputs
have exactly one result for each row. The module ``partition.py`` finds and cuts out the parts that
run on other machines, and proves that this is possible. In ``reconfigure.py`` are the changes that
a running flow allows.
"""

from modelflow.plan.execution_plan import (
    SLOW_ROW,
    ExecutionPlan,
    Origin,
    StagePlan,
    Target,
    UnitPlan,
)
from modelflow.plan.make import make_plan
from modelflow.plan.reconfigure import reconfigure_plan

__all__ = [
    "SLOW_ROW",
    "ExecutionPlan",
    "Origin",
    "StagePlan",
    "Target",
    "UnitPlan",
    "make_plan",
    "reconfigure_plan",
]
