"""The kinds of flow unit as they run: a file each, ending in its `RunningKind`.

A new kind is a file here, its line in this table, and its line in `modelflow.unit.spec.Kind`.
"""

from modelflow.runtime.kind import RunningKind
from modelflow.runtime.kinds import collapse, condition, expand, loop, normal, source, stream
from modelflow.unit.kind import Kind
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["running_kind"]

_KINDS: dict[Kind, RunningKind] = {
    Kind.NORMAL: normal.KIND,
    Kind.STREAM: stream.KIND,
    Kind.CONDITION: condition.KIND,
    Kind.EXPAND: expand.KIND,
    Kind.COLLAPSE: collapse.KIND,
    Kind.LOOP: loop.KIND,
}


def running_kind(spec: FlowUnitSpec) -> RunningKind:
    """Returns how units of this description run; sources all alike, whatever their kind."""
    return source.KIND if spec.is_source else _KINDS[spec.kind]
