"""Loop units: a buffer goes round until it leaves by the exit, where the order is restored.

Rows 0 and 1 of a session enter. The unit sends 0 round (as number 0 of the stream that goes round)
and 1 to the exit: 1 waits, because 0 is still inside. When 0 has come back and leaves, 0 and 1 go
on.
"""

from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.loop.call import LoopCall
from modelflow.runtime.kinds.loop.looping import LoopOrder
from modelflow.runtime.kinds.loop.outbox import LoopOutbox
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.stages.kind import Connection, RunningKind
from modelflow.runtime.stages.outbox import Outbox

__all__ = ["KIND"]


def _order(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:  # noqa: ARG001
    return LoopOrder(policy, width, plan.name, plan.unit.spec.name)


def _outbox(plan: StagePlan, to: Connection) -> Outbox:
    assert isinstance(to.order, LoopOrder)  # made by `_order`
    return LoopOutbox(to.routes, to.inbox, to.order, plan.unit.exit_port)


KIND = RunningKind(
    call=LoopCall,
    order=_order,
    outbox=_outbox,
    is_ordered=False,
    is_matching=False,
    is_gathering=False,
    is_lendable=False,
)
