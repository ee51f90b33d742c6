"""Which kind of unit is called how."""

from modelflow.flowunit.spec import FlowUnitSpec, Kind
from modelflow.runtime.call import UnitCall
from modelflow.runtime.kinds.collapse import CollapseCall
from modelflow.runtime.kinds.condition import ConditionCall
from modelflow.runtime.kinds.expand import ExpandCall
from modelflow.runtime.kinds.loop import LoopCall
from modelflow.runtime.kinds.normal import NormalCall
from modelflow.runtime.kinds.stream_call import StreamCall

__all__ = ["call_type"]

_CALLS: dict[Kind, type[UnitCall]] = {
    Kind.NORMAL: NormalCall,
    Kind.STREAM: StreamCall,
    Kind.CONDITION: ConditionCall,
    Kind.EXPAND: ExpandCall,
    Kind.COLLAPSE: CollapseCall,
    Kind.LOOP: LoopCall,
}


def call_type(spec: FlowUnitSpec) -> type[UnitCall]:
    """Returns the class that calls units of this kind; every source is called alike."""
    return NormalCall if spec.is_source else _CALLS[spec.kind]
