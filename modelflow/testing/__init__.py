"""Public test helpers, with which modelflow tests its own flow units."""

from modelflow.testing.check import check_flow_unit
from modelflow.testing.run import read_unit, run_unit

__all__ = ["check_flow_unit", "read_unit", "run_unit"]
