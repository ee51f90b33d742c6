"""The kinds of flow unit as they run: a file each, ending in its `RunningKind`.

In: batches of the stage's inbox. Out: results for its outbox: as many rows as came (normal), one
output of several (condition), many rows for one (expand), one row for many (collapse), any rows
(stream, source), or rows that go round (loop).
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
    """Returns how the units of a stage run."""
    return chain.KIND if len(units) > 1 else _KINDS[type(units[0].spec.kind)]
