"""A running node, or a chain of them: its inbox, its outbox, its unit instances.

Node "infer" with ``threads=2``: one inbox, one outbox, two workers. Nodes "decode" and "resize" as
one stage: the same, and each worker has an instance of both units. The plan says all of that; the
stage holds it.
"""

from collections.abc import Mapping, Sequence

from modelflow.device import Device
from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.stages.call import UnitCall
from modelflow.runtime.stages.instances import UnitInstances
from modelflow.runtime.stages.kind import Connection, RunningKind
from modelflow.runtime.stages.outbox import Outbox, Route
from modelflow.runtime.stages.stage_stats import StageStats
from modelflow.runtime.stages.transfer import Transfer
from modelflow.unit.unit import FlowUnit

# Buffers of one input of the graph that may wait for partners that their caller has not sent.
UNMATCHED_BOUND = 1024


class Stage:
    """One node, or a chain of them, while it runs; made by `Wiring`, used by its workers."""

    plan: StagePlan
    """What was planned for it."""
    clock: Clock
    """What every wait goes by."""
    kind: RunningKind
    """How units of its kind run."""
    inbox: Inbox
    """The queue in front of it."""
    outbox: Outbox
    """Behind it; set by `connect`."""
    exits: Mapping[str, int]
    """Origin -> the stage's place among the exits of its sessions; only where rows are counted out
    at this stage, and somebody wants to know."""
    instances: tuple[UnitInstances, ...]
    """Of each of its units."""
    figures: StageStats
    """What its workers count."""
    is_lendable: bool
    """A thread of a stage before it may run it, as far as the stage goes."""
    unread_bound: int
    """Unread results of a session at which a stream unit makes no more of them."""

    def __init__(
        self,
        plan: StagePlan,
        kind: RunningKind,
        entry_ports: frozenset[int],
        unread_bound: int,
        clock: Clock,
    ) -> None:
        """Makes the stage of a plan.

        Args:
            plan: What was planned for it.
            kind: How units of its kind run.
            entry_ports: Its ports that are fed by the graph's own inputs.
            unread_bound: Unread results of a session at which a stream unit makes no more of them.
            clock: What every wait goes by.
        """
        self.plan = plan
        self.clock = clock
        self._entry_ports = entry_ports
        self.kind = kind
        self.unread_bound = unread_bound
        self._is_ordered = plan.threads > 1 and kind.is_ordered
        policy = self._policy(entry_ports)
        inputs = plan.unit.inputs
        width = max(1, len(inputs)) if kind.is_matching else 1
        self.order = kind.order(policy, width, plan, clock)
        self.inbox = Inbox(
            plan.name, inputs, policy, self.order, clock, is_matching=kind.is_matching
        )
        self.is_lendable = self._is_lendable(policy)
        self.outbox = Outbox((), None, 0)
        self.exits = {}
        self.instances = tuple(
            UnitInstances(unit, plan.batch_size, plan.executor) for unit in plan.units
        )
        self.figures = StageStats(plan, self.inbox, self.instances, clock)

    def _policy(self, entry_ports: frozenset[int]) -> InboxPolicy:
        plan = self.plan
        unmatched = [
            UNMATCHED_BOUND if port in entry_ports else 1 << 62
            for port in range(len(plan.unit.inputs))
        ]
        return InboxPolicy(
            bounds=plan.bounds or (1,),
            batch_size=plan.batch_size,
            batch_timeout=plan.batch_timeout if self.kind.is_gathering else 0.0,
            byte_bound=plan.unit.settings.queue_bytes,
            unmatched_bounds=tuple(unmatched) if entry_ports else (),
            workers=plan.threads,
            is_ordered=self._is_ordered,
            is_measured=plan.batch_size > 1 and any(unit.spec.is_shared for unit in plan.units),
            is_one_by_one=plan.is_one_by_one,
        )

    def _is_lendable(self, policy: InboxPolicy) -> bool:
        plan = self.plan
        return self.kind.is_lendable and not (
            plan.cpu_affinity
            or policy.batch_timeout
            or policy.is_measured
            or plan.executor != "thread"
            or any(device.kind != "cpu" for device in plan.devices)
        )

    def connect(
        self,
        routes: Sequence[Route],
        marks: Sequence[tuple[frozenset[int], Route]],
        exits: Mapping[str, int],
    ) -> None:
        """Gives the stage what its outputs feed.

        Args:
            routes: For each output, what it feeds.
            marks: A condition's: which outputs meet where.
            exits: See the attribute.
        """
        plan = self.plan
        self.exits = exits
        gate = self.inbox if self._is_ordered else None
        self.outbox = self.kind.outbox(
            plan, Connection(routes, marks, self.inbox, gate, self.order, _limit(plan))
        )

    def calls_of(self, units: Sequence[FlowUnit]) -> list[UnitCall]:
        """Returns what calls opened instances, one of each unit."""
        first = units[0]
        if type(first).most_rows is not FlowUnit.most_rows:
            self.inbox.limit_by(first.most_rows)
        return [
            self.kind.call(unit, plan) for unit, plan in zip(units, self.plan.units, strict=True)
        ]

    def device_of(self, worker: int) -> Device:
        """Returns the device of worker number ``worker``."""
        return self.plan.devices[worker % len(self.plan.devices)]

    def transfer(self, worker: int) -> Transfer | None:
        """Returns what moves the data of worker number ``worker``; None where nothing can move."""
        plan = self.plan
        if not plan.moves:
            return None
        by_name = {port.name: port for port in plan.unit.spec.inputs}
        ports = [by_name[name] for name in plan.unit.inputs]
        stats = self.figures.units[0][worker]
        return Transfer(self.device_of(worker), ports, plan.delivered, stats)

    # -- changes ---------------------------------------------------------------------------------

    def go_by(self, plan: StagePlan) -> None:
        """Goes by another plan of the same units: other batches, bounds, threads.

        `call_due` of the inbox belongs behind it. Where there are more threads than one from now
        on, nobody may be at work here: results are put in order from now on.
        """
        self._is_ordered = self._is_ordered or (plan.threads > 1 and self.kind.is_ordered)
        self.plan = plan
        policy = self._policy(self._entry_ports)
        with self.figures.lock:  # who looks sees the old rules, or the new ones
            was_noting = self.inbox.is_noting
            self.inbox.set_bounds(policy)
            self.figures.go_by(plan, was_noting=was_noting)
        self.is_lendable = self._is_lendable(policy)
        self.outbox.go_by(self.inbox if self._is_ordered else None, _limit(plan))

    def close(self) -> None:
        """Wakes every worker and producer of this stage; what is queued is dropped."""
        self.inbox.close()
        self.outbox.close()
        for instances in self.instances:
            instances.interrupt()


def _limit(plan: StagePlan) -> int:
    """Returns how many rows of a session may wait for their turn behind the stage."""
    return max(plan.bounds, default=1) + plan.threads * plan.batch_size
