"""The description of a kind of unit for the runtime, which ends the kind's own file."""

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
    """The receivers of a stage's outputs, and the stage's own queue."""

    routes: Sequence[Route]
    """The receivers of each output."""
    marks: Sequence[tuple[frozenset[int], Route]]
    """For a condition: each set of outputs that meet again, and the route to their `Merge`."""
    inbox: Inbox
    """The stage's own queue."""
    gate: Inbox | None
    """The stage's own queue if several workers' results must be put in order, else None."""
    order: Order
    """The order of the stage's queue."""
    limit: int
    """The most rows of a session that may wait for their turn in the outbox."""


def in_turn(policy: InboxPolicy, width: int, plan: StagePlan, clock: Clock) -> Order:
    """Returns the order of most kinds: `Fair` with ``split_size``, else `Fifo`."""
    size = plan.unit.settings.split_size
    return Fair(policy, width, size, clock) if size else Fifo(policy, width)


def _outbox(plan: StagePlan, to: Connection) -> Outbox:  # noqa: ARG001 - as others need it
    return Outbox(to.routes, to.gate, to.limit)


@dataclass(frozen=True, slots=True)
class RunningKind:
    """The classes that run units of one kind. The defaults are those of normal units."""

    call: Callable[[FlowUnit, UnitPlan], UnitCall]
    """Creates the call of an instance."""
    order: Callable[[InboxPolicy, int, StagePlan, Clock], Order] = in_turn
    """Creates the order of the inbox from policy, number of ports, plan and clock."""
    outbox: Callable[[StagePlan, Connection], Outbox] = _outbox
    """Creates the outbox."""
    worker: "type[Worker] | None" = None
    """The worker class, or None for `Worker`."""
    is_ordered: bool = True
    """True if the results of several workers must be put in order again."""
    is_matching: bool = True
    """True if several inputs are paired, row by row."""
    is_lendable: bool = True
    """True if a thread that brings a batch may borrow a worker's slot and run the batch."""
    is_gathering: bool = True
    """True if ``batch_timeout_ms`` has an effect."""
