"""A running node, or a chain of them: its inbox, its outbox, its unit instances.

Node "infer" with ``threads=2``: one inbox, one outbox, two workers. Nodes "decode" and "resize" as
one stage: the same, and each worker has an instance of both units. The plan says all of that; the
stage holds it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from modelflow.device import Device
from modelflow.plan import StagePlan
from modelflow.runtime.call import UnitCall
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox
from modelflow.runtime.instances import UnitInstances
from modelflow.runtime.kind import Connection, RunningKind
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.stats import NodeStats, WorkerStats
from modelflow.runtime.transfer import Transfer
from modelflow.unit.unit import FlowUnit

__all__ = ["Stage"]

# Buffers of one input of the graph that may wait for partners that their caller has not sent.
UNMATCHED_BOUND = 1024


class Stage:
    """One node, or a chain of them, while it runs; made by `Wiring`, used by its workers."""

    plan: StagePlan
    """What was planned for it."""
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
    stats: list[WorkerStats]
    """The counters of its workers."""
    unit_stats: tuple[list[WorkerStats], ...]
    """The same by unit; of a stage with one unit these are its own."""
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
        self._clock = clock
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
        self.is_lendable = kind.is_lendable and not (
            plan.cpu_affinity
            or policy.batch_timeout
            or policy.is_measured
            or plan.executor != "thread"
            or any(device.kind != "cpu" for device in plan.devices)
        )
        self.outbox = Outbox((), None, 0)
        self.exits = {}
        self.stats = [WorkerStats() for _ in range(plan.threads)]
        self.unit_stats = (self.stats,)
        if len(plan.units) > 1:
            self.unit_stats = tuple([WorkerStats() for _ in self.stats] for _ in plan.units)
        self.instances = tuple(
            UnitInstances(unit, plan.batch_size, plan.executor) for unit in plan.units
        )

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
        limit = max(plan.bounds, default=1) + plan.threads * plan.batch_size
        self.exits = exits
        gate = self.inbox if self._is_ordered else None
        self.outbox = self.kind.outbox(
            plan, Connection(routes, marks, self.inbox, gate, self.order, limit)
        )

    def calls_of(self, units: Sequence[FlowUnit]) -> list[UnitCall]:
        """Returns what calls opened instances, one of each unit."""
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
        stats = self.unit_stats[0][worker]
        return Transfer(self.device_of(worker), ports, plan.delivered, stats)

    # -- figures --------------------------------------------------------------------------------

    def done(self) -> int:
        """Returns how many calls have been made: a figure that grows while something moves."""
        return sum(stats.batches for stats in self.stats)

    def expected_wait(self) -> float | None:
        """Returns the seconds until what is queued now is done, from the rate so far."""
        done = [stats.done for stats in self.stats]
        rows = sum(count for count, _ in done)
        if not rows:
            return None
        return self.inbox.ready * sum(spent for _, spent in done) / rows / self.plan.threads

    def statistics(self) -> list[NodeStats]:
        """Returns the figures of each of its nodes at this moment."""
        plan, now, found = self.plan, self._clock.now(), []
        for place, instances in enumerate(self.instances):
            unit, workers = instances.plan, self.unit_stats[place]
            stats = NodeStats.of(unit.node, unit.spec.name, plan.name, workers, now)
            stats = replace(stats, batch_size=plan.batch_size, figures=instances.figures())
            found.append(stats if place else self._with_queue(stats, now))
        return found

    def _with_queue(self, first: NodeStats, now: float) -> NodeStats:
        """Returns the figures of the first node with those of the whole stage."""
        plan, queue = self.plan, self.inbox.stats
        whole = first
        if len(plan.units) > 1:
            whole = NodeStats.of(plan.name, "", plan.name, self.stats, now)
        closed = dict(queue.closed) if self.inbox.is_noting else self._closed()
        return replace(
            first,
            dropped=queue.dropped,
            seconds=whole.seconds,
            starved=whole.starved,
            blocked=whole.blocked,
            order=whole.order,
            lent=whole.lent,
            on_core=whole.on_core,
            runnable=whole.runnable,
            queue=self.inbox.ready,
            capacity=min(plan.bounds, default=0),
            batch_timeout=self.inbox.policy.batch_timeout,
            closed={reason: count for reason, count in closed.items() if count},
            wait=whole.wait,
        )

    def _closed(self) -> dict[str, int]:
        """Tells why batches closed where nobody waits for fuller ones, and nobody noted it.

        What was not full had nothing more to take, or left it to others.
        """
        found: Counter[str] = Counter()
        for worker in self.stats:
            for size, (count, _) in list(worker.by_size.items()):
                if size:
                    reason = "full" if size >= self.plan.batch_size else "nothing_waiting"
                    found[reason] += int(count)
            found["shared"] += int(sum(count for count, _ in list(worker.parts.values())))
        return found

    def close(self) -> None:
        """Wakes every worker and producer of this stage; what is queued is dropped."""
        self.inbox.close()
        self.outbox.close()
        for instances in self.instances:
            instances.interrupt()
