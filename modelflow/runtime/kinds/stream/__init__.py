"""Stream units: the buffers of one stream, in order, one call at a time."""

from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.kinds.stream.by_session import BySession
from modelflow.runtime.kinds.stream.call import StreamCall
from modelflow.runtime.kinds.stream.worker import StreamWorker
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.stages.kind import RunningKind

__all__ = ["KIND"]


def _order(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:  # noqa: ARG001
    return BySession(policy, width, clock)


# A session's calls are one after the other, so that there is no order to restore behind them.
KIND = RunningKind(
    call=StreamCall,
    order=_order,
    worker=StreamWorker,
    is_ordered=False,
    is_gathering=False,
    is_lendable=False,
)
