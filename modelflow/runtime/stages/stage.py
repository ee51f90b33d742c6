"""A running node, or a chain of nodes: its inbox, its outbox, its unit instances.

Node "infer" with ``threads=2`` has one inbox, one outbox and two workers. Nodes "decode" and
"resize" may run as one stage. Then each worker has an instance of both units. The plan decides all
of this.
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

# The most buffers of a graph input that may wait for partners which the caller has not sent yet.
UNMATCHED_BOUND = 1024


class Stage:
    """A running node, or a running chain of nodes; created by `Wiring`, used by its workers."""

    plan: StagePlan
    """The plan of the stage."""
    clock: Clock
    """The clock of every wait."""
    kind: RunningKind
    """The classes that run units of this kind."""
    inbox: Inbox
    """The queue in front of the stage."""
    outbox: Outbox
    """The exit of the stage; set by `connect`."""
    exits: Mapping[str, int]
    """The stage's place among the exits of a session, by the session's origin.

    Empty unless the stage counts the rows that leave the graph here, for ``max_in_flight``.
    """
    instances: tuple[UnitInstances, ...]
    """The instances of each unit."""
    figures: StageStats
    """The statistics of the stage."""
    is_lendable: bool
    """True if the stage allows a thread of an earlier stage to borrow a worker's slot."""
    unread_bound: int
    """The number of unread results of a session at which a stream unit gets no more events."""

    def __init__(
        self,
        plan: StagePlan,
        kind: RunningKind,
        entry_ports: frozenset[int],
        unread_bound: int,
        clock: Clock,
    ) -> None:
        """Creates the stage of a plan.

        Args:
            plan: The plan of the stage.
            kind: The classes that run units of this kind.
            entry_ports: The ports that graph inputs feed.
            unread_bound: See the attribute.
            clock: The clock of every wait.
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
        """Creates the outbox, which connects the stage to its receivers.

        Args:
            routes: The receivers of each output.
            marks: For a condition: each set of outputs that meet again, and the route to their
                `Merge`.
            exits: See the attribute.
        """
        plan = self.plan
        self.exits = exits
        gate = self.inbox if self._is_ordered else None
        self.outbox = self.kind.outbox(
            plan, Connection(routes, marks, self.inbox, gate, self.order, _limit(plan))
        )

    def calls_of(self, units: Sequence[FlowUnit]) -> list[UnitCall]:
        """Returns the calls of opened instances, an instance of each unit."""
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
        """Returns the transfer of worker number ``worker``, or None if no data is ever moved."""
        plan = self.plan
        if not plan.moves:
            return None
        by_name = {port.name: port for port in plan.unit.spec.inputs}
        ports = [by_name[name] for name in plan.unit.inputs]
        stats = self.figures.units[0][worker]
        return Transfer(self.device_of(worker), ports, plan.delivered, stats)

    # -- changes ---------------------------------------------------------------------------------

    def go_by(self, plan: StagePlan) -> None:
        """Applies another plan of the same units: other batches, bounds, threads.

        The caller calls `call_due` of the inbox afterwards. If the plan changes from one thread to
        several, no worker may be in a call: from now on spans have tickets and results are ordered.
        """
        self._is_ordered = self._is_ordered or (plan.threads > 1 and self.kind.is_ordered)
        self.plan = plan
        policy = self._policy(self._entry_ports)
        with self.figures.lock:  # a reader sees only old rules or only new rules
            was_noting = self.inbox.is_noting
            self.inbox.set_bounds(policy)
            self.figures.go_by(plan, was_noting=was_noting)
        self.is_lendable = self._is_lendable(policy)
        self.outbox.go_by(self.inbox if self._is_ordered else None, _limit(plan))

    def close(self) -> None:
        """Drops all queued rows, and wakes every worker and producer of this stage."""
        self.inbox.close()
        self.outbox.close()
        for instances in self.instances:
            instances.interrupt()


def _limit(plan: StagePlan) -> int:
    """Returns how many rows of a session may wait for their turn in the outbox."""
    return max(plan.bounds, default=1) + plan.threads * plan.batch_size
