"""Loop units, which send a buffer round until the buffer leaves by the exit, in the order of entry.

Rows that go round form a stream of their own, the inner stream. Each round gives a row a new
position there. Rows that return go before rows that enter.

Example: the loop has ``queue_size=2`` and ``batch_size=2``. A session sends the rows 0, 1, 2 and an
end. ``settle`` gets the results of a batch; ``#0`` is position 0 of the inner stream::

    call of `LoopOrder`              rows inside     sent round    sent to the exit
    add(ENTRY, 0 1 2 end)            none            none          none
    cut -> 0 1                       0 1             none          none    2 waits: two rows inside
    settle(0 back, 1 exit)           0, 1 (done)     0 as #0       none    1 waits for 0
    add(RETURN, #0), cut -> 0        0, 1 (done)     none          none
    settle(0 exit)                   none            none          0, 1
    cut -> 2, settle(2 back)         2               2 as #1       none
    add(RETURN, #1), cut -> 2        2               none          none
    settle(2 exit)                   none            the end       2
    add(RETURN, end), cut, settle    none            none          the end

The end goes round once, because the nodes inside the loop need it as well.
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
