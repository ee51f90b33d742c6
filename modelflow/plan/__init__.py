"""The plan: what will run where, chosen from a checked graph; nothing runs here.

In: a `Graph`. Out: an `ExecutionPlan` of frozen `StagePlan` values, each with its reason.

``make.py`` chooses threads, batches, queues and routes. ``fuse.py`` joins neighbours into one
stage. ``origins.py`` finds where streams begin and which outputs give one
result a row. ``partition.py`` finds the parts that run elsewhere, proves that they may, and cuts
them out. ``reconfigure.py`` says what may change while a flow runs.
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
