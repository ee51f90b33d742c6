"""What the runtime knows of a kind of unit: a value, at the end of the kind's own file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelflow.plan import StagePlan, UnitPlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.orders.fair import Fair
from modelflow.runtime.orders.fifo import Fifo
from modelflow.runtime.orders.order import InboxPolicy, Order
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.stages.call import UnitCall
from modelflow.runtime.stages.outbox import Outbox, Route
from modelflow.unit.unit import FlowUnit

if TYPE_CHECKING:
    from modelflow.runtime.workers.worker import Worker


@dataclass(frozen=True, slots=True)
class Connection:
    """What a stage's outputs feed, and what stands before it."""

    routes: Sequence[Route]
    """For each output, the receivers that it feeds."""
    marks: Sequence[tuple[frozenset[int], Route]]
    """A condition's: which outputs meet where."""
    inbox: Inbox
    """The stage's own queue."""
    gate: Inbox | None
    """The same, where several workers take from it and their results must be put in order."""
    order: Order
    """The order of that queue."""
    limit: int
    """Most rows of a session that may wait for their turn behind the stage."""


def in_turn(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:  # noqa: ARG001
    """Makes the order of most kinds: first come, first served, or sessions by turns."""
    size = plan.unit.settings.split_size
    return Fair(policy, width, size) if size else Fifo(policy, width)


def _outbox(plan: StagePlan, to: Connection) -> Outbox:  # noqa: ARG001 - as others need it
    return Outbox(to.routes, to.gate, to.limit)


@dataclass(frozen=True, slots=True)
class RunningKind:
    """How units of one kind run. What is not given is as for normal units."""

    call: Callable[[FlowUnit, UnitPlan], UnitCall]
    """What calls an instance."""
    order: Callable[[InboxPolicy, int, StagePlan, Clock], Order] = in_turn
    """Makes the order of the inbox: policy, ports a row has, plan, clock."""
    outbox: Callable[[StagePlan, Connection], Outbox] = _outbox
    """Makes the outbox."""
    worker: "type[Worker] | None" = None
    """The life of a thread; None: `Worker`."""
    is_ordered: bool = True
    """With several workers, what they give must be put in order again."""
    is_matching: bool = True
    """Several inputs are paired, row by row."""
    is_lendable: bool = True
    """A thread that has brought a batch may run it."""
    is_gathering: bool = True
    """``batch_timeout_ms`` is obeyed."""
