"""Stream units, which get the buffers of one stream in order, one call at a time."""

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


# ``is_ordered=False``: a session's calls never overlap, so its results are in order already.
KIND = RunningKind(
    call=StreamCall,
    order=_order,
    worker=StreamWorker,
    is_ordered=False,
    is_gathering=False,
    is_lendable=False,
)
