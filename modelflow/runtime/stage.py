"""A running node: its inbox, its outbox, its unit instances."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelflow.device import Device
from modelflow.flowunit.spec import Kind
from modelflow.flowunit.unit import FlowUnit
from modelflow.plan import StagePlan
from modelflow.runtime.call import UnitCall
from modelflow.runtime.clock import Clock
from modelflow.runtime.fair_inbox import FairInbox
from modelflow.runtime.inbox import Inbox, InboxPolicy
from modelflow.runtime.kinds.collapse import CollapseInbox
from modelflow.runtime.kinds.condition import ConditionOutbox
from modelflow.runtime.kinds.expand import ExpandOutbox
from modelflow.runtime.kinds.kind import call_type
from modelflow.runtime.kinds.lane_inbox import LaneInbox
from modelflow.runtime.kinds.loop import LoopCall, LoopInbox, LoopOutbox
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.processes.process_unit import ProcessUnit
from modelflow.runtime.stats import NodeStats, WorkerStats
from modelflow.runtime.transfer import Transfer

__all__ = ["Stage"]

# Buffers of one input of the graph that may wait for partners that their caller has not sent.
UNMATCHED_BOUND = 1024


class Stage:
    """One node while it runs; made by the scheduler, used by its workers.

    Attributes:
        plan: What it was made from.
        inbox: In front of it.
        outbox: Behind it; set by `connect`.
        exits: See `connect`.
        stats: The counters of its workers.
    """

    def __init__(
        self, plan: StagePlan, entry_ports: frozenset[int], unread_bound: int, clock: Clock
    ) -> None:
        """Makes the stage of a node.

        Args:
            plan: What was planned for it.
            entry_ports: Its ports that are fed by the graph's own inputs.
            unread_bound: Unread results of a session at which a stream unit makes no more of them.
            clock: What every wait goes by.
        """
        self.plan = plan
        kind = plan.spec.kind
        # A stream's workers take turns by session, and a loop knows the order of what is inside.
        self.is_ordered = plan.threads > 1 and kind not in (Kind.STREAM, Kind.LOOP)
        self.inbox = self._inbox(self._policy(entry_ports), unread_bound, clock)
        self.outbox = Outbox((), is_ordered=False, limit=0)
        self.exits: Mapping[str, int] = {}
        self.stats = [WorkerStats() for _ in range(plan.threads)]
        self._shared: dict[Device, FlowUnit] = {}
        self._users: dict[Device, int] = {}
        self._figures: dict[int, Mapping[str, Mapping[Any, int]]] = {}
        self._lock = threading.Lock()
        # Units that wait for others while they are called.
        self._waiting: list[FlowUnit] = []

    def _policy(self, entry_ports: frozenset[int]) -> InboxPolicy:
        plan = self.plan
        unmatched = [
            UNMATCHED_BOUND if port in entry_ports else 1 << 62 for port in range(len(plan.inputs))
        ]
        return InboxPolicy(
            bounds=plan.bounds or (1,),
            batch_size=plan.batch_size,
            batch_timeout=plan.batch_timeout,
            byte_bound=plan.byte_bound,
            unmatched_bounds=tuple(unmatched) if entry_ports else (),
            is_ordered=self.is_ordered,
            is_measured=plan.spec.is_shared and plan.batch_size > 1,
            split_size=plan.split_size,
        )

    def _inbox(self, policy: InboxPolicy, unread_bound: int, clock: Clock) -> Inbox:
        plan = self.plan
        node, ports, depth = plan.node, plan.inputs, plan.depth
        if plan.spec.is_source:
            return Inbox(node, ports, policy, clock)
        match plan.spec.kind:
            case Kind.STREAM:
                return LaneInbox(node, ports, policy, clock, depth=depth, unread_bound=unread_bound)
            case Kind.COLLAPSE:
                return CollapseInbox(node, ports, policy, clock, depth)
            case Kind.LOOP:
                return LoopInbox(node, ports, policy, clock)
            case _:
                kind = FairInbox if plan.split_size else Inbox
                return kind(node, ports, policy, clock)

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
            exits: Origin -> the stage's place among the exits of its sessions; only where rows are
                counted out at this stage, and somebody wants to know.
        """
        plan, is_ordered = self.plan, self.is_ordered
        limit = max(plan.bounds, default=1) + plan.threads * plan.batch_size
        self.exits = exits
        match plan.spec.kind:
            case Kind.CONDITION:
                self.outbox = ConditionOutbox(routes, marks, is_ordered=is_ordered, limit=limit)
            case Kind.EXPAND:
                self.outbox = ExpandOutbox(routes, is_ordered=is_ordered, limit=limit)
            case Kind.LOOP:
                assert isinstance(self.inbox, LoopInbox)  # made above
                self.outbox = LoopOutbox(routes, self.inbox, plan.exit_port)
            case _:
                self.outbox = Outbox(routes, is_ordered=is_ordered, limit=limit)

    def call_of(self, unit: FlowUnit) -> UnitCall:
        """Returns what calls an opened instance of the unit."""
        plan = self.plan
        call = call_type(plan.spec)(
            unit,
            plan.spec,
            plan.node,
            inputs=plan.inputs,
            consumers=[len(route) for route in plan.routes],
            is_exception_visible=plan.is_exception_visible,
        )
        if isinstance(call, LoopCall):
            call.exit_port = plan.exit_port
        return call

    def device_of(self, worker: int) -> Device:
        """Returns the device of worker number ``worker``."""
        return self.plan.devices[worker % len(self.plan.devices)]

    def transfer(self, worker: int) -> Transfer | None:
        """Returns what moves the data of worker number ``worker``; None where nothing can move."""
        plan = self.plan
        if not plan.moves:
            return None
        by_name = {port.name: port for port in plan.spec.inputs}
        ports = [by_name[name] for name in plan.inputs]
        return Transfer(self.device_of(worker), ports, plan.delivered, self.stats[worker])

    def open_unit(self, device: Device) -> FlowUnit:
        """Gives an opened instance; where the unit is shared, the one of this device.

        Raises:
            Exception: whatever the unit's constructor or ``open`` raised.
        """
        if not self.plan.spec.is_shared:
            return self._opened(device)
        with self._lock:  # the others wait while the first one opens
            unit = self._shared.get(device)
            if unit is None:
                unit = self._shared[device] = self._opened(device)
            self._users[device] = self._users.get(device, 0) + 1
            return unit

    def close_unit(self, unit: FlowUnit, device: Device) -> None:
        """Closes an instance; a shared one when its last worker is done with it.

        Raises:
            Exception: whatever the unit's ``close`` raised.
        """
        if self.plan.spec.is_shared:
            with self._lock:
                self._users[device] -= 1
                if self._users[device]:
                    return
                self._figures[id(unit)] = unit.figures()
                del self._shared[device]
        unit.close()

    def expected_wait(self) -> float | None:
        """Returns the seconds until what is queued now is done, from the rate so far."""
        buffers = sum(stats.buffers for stats in self.stats)
        busy = sum(stats.busy for stats in self.stats)
        if not buffers:
            return None
        return self.inbox.ready * busy / buffers / self.plan.threads

    def statistics(self) -> NodeStats:
        """Returns the node's figures at this moment."""
        plan = self.plan
        stats = NodeStats.of(plan.node, plan.spec.name, self.stats, self.inbox.ready)
        if self.inbox.figures is not None:
            stats = stats.with_queue(self.inbox.figures)
        with self._lock:
            self._figures.update({id(unit): unit.figures() for unit in self._shared.values()})
        return replace(stats, figures=_added(self._figures.values()))

    def reload(self) -> None:
        """Lets the shared instances take up what has changed outside; on the caller's thread.

        Raises:
            NotImplementedError: the unit has nothing to take up.
            Exception: whatever its ``reload`` raised.
        """
        with self._lock:
            units = list(self._shared.values())
        if not units:
            message = f"unit {self.plan.spec.name!r} has nothing to reload"
            raise NotImplementedError(message)
        for unit in units:
            unit.reload()

    def close(self) -> None:
        """Wakes every worker and producer of this stage; what is queued is dropped."""
        self.inbox.close()
        self.outbox.close()
        for unit in list(self._waiting):
            unit.interrupt()

    def _opened(self, device: Device) -> FlowUnit:
        if self.plan.is_in_process:
            unit: FlowUnit = ProcessUnit(self.plan.spec, self.plan.node)
            self._waiting.append(unit)
        else:
            unit = self.plan.spec.create(device.kind)
        unit.device = device
        unit.batch_size = self.plan.batch_size
        unit.allowed_batch_sizes = self.plan.allowed_batch_sizes
        unit.open(self.plan.config)
        return unit


def _added(units: Iterable[Mapping[str, Mapping[Any, int]]]) -> dict[str, dict[Any, int]]:
    total: dict[str, Counter[Any]] = {}
    for figures in units:
        for name, counts in figures.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in total.items()}
