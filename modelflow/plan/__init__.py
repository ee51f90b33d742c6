"""What will run where, chosen from a checked graph; nothing runs here."""

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
