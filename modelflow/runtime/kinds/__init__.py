"""The running kinds of flow unit: a file for each kind, which ends with its `RunningKind`.

In: batches of the stage's inbox. Out: results for the stage's outbox. The results depend on the
kind:

- normal: one row for each input row
- condition: one row, on one of several outputs
- expand: many rows for one
- collapse: one row for many
- stream, source: any number of rows
- loop: one row, which leaves or goes round again
"""

from collections.abc import Sequence

from modelflow.plan import UnitPlan
from modelflow.runtime.kinds import chain, collapse, condition, expand, loop, normal, source, stream
from modelflow.runtime.stages.kind import RunningKind
from modelflow.unit.kind import Collapse, Condition, Expand, Kind, Loop, Normal, Source, Stream

__all__ = ["running_kind"]

_KINDS: dict[type[Kind], RunningKind] = {
    Normal: normal.KIND,
    Source: source.KIND,
    Stream: stream.KIND,
    Condition: condition.KIND,
    Expand: expand.KIND,
    Collapse: collapse.KIND,
    Loop: loop.KIND,
}


def running_kind(units: Sequence[UnitPlan]) -> RunningKind:
    """Returns the running kind of a stage with the given units."""
    return chain.KIND if len(units) > 1 else _KINDS[type(units[0].spec.kind)]
