"""The kinds of flow unit as they run: a file each, ending in its `RunningKind`.

In: batches of the stage's inbox. Out: results for its outbox: as many rows as came (normal), one
output of several (condition), many rows for one (expand), one row for many (collapse), any rows
(stream, source), or rows that go round (loop).
"""

from collections.abc import Sequence

from modelflow.plan import UnitPlan
from modelflow.runtime.kinds import chain, collapse, condition, expand, loop, normal, source, stream
from modelflow.runtime.stages.kind import RunningKind
from modelflow.unit.kind import Kind

__all__ = ["running_kind"]

_KINDS: dict[Kind, RunningKind] = {
    Kind.NORMAL: normal.KIND,
    Kind.STREAM: stream.KIND,
    Kind.CONDITION: condition.KIND,
    Kind.EXPAND: expand.KIND,
    Kind.COLLAPSE: collapse.KIND,
    Kind.LOOP: loop.KIND,
}


def running_kind(units: Sequence[UnitPlan]) -> RunningKind:
    """Returns how the units of a stage run; sources all alike, whatever their kind."""
    spec = units[0].spec
    if len(units) > 1:
        return chain.KIND
    return source.KIND if spec.is_source else _KINDS[spec.kind]
