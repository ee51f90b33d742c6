"""A running node: its inbox, its outbox, its unit instances.

Node "infer" with ``threads=2`` on two GPUs, of a shared unit: one inbox, one outbox, two workers,
and two instances of the unit, one a device. The plan says all of that; the stage holds it.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from modelflow.device import Device
from modelflow.plan import StagePlan
from modelflow.runtime.call import UnitCall
from modelflow.runtime.clock import Clock
from modelflow.runtime.executors import executor_of
from modelflow.runtime.inbox import Inbox
from modelflow.runtime.kind import Connection, RunningKind
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.stats import NodeStats, WorkerStats
from modelflow.runtime.transfer import Transfer
from modelflow.unit.unit import FlowUnit
from modelflow.wire.tensor import TensorSpec

__all__ = ["OpeningInterrupted", "Stage"]

logger = logging.getLogger("modelflow")

# Buffers of one input of the graph that may wait for partners that their caller has not sent.
UNMATCHED_BOUND = 1024

Figures = Mapping[str, Mapping[Any, int]]


class OpeningInterrupted(Exception):  # noqa: N818 - it is no failure
    """The flow was stopped while a unit opened, and the unit has given that up."""


class Stage:
    """One node while it runs; made by `Wiring`, used by its workers."""

    plan: StagePlan
    """What was planned for the node."""
    kind: RunningKind
    """How units of its kind run."""
    inbox: Inbox
    """The queue in front of it."""
    outbox: Outbox
    """Behind it; set by `connect`."""
    exits: Mapping[str, int]
    """Origin -> the stage's place among the exits of its sessions; only where rows are counted out
    at this stage, and somebody wants to know."""
    stats: list[WorkerStats]
    """The counters of its workers."""
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
        """Makes the stage of a node.

        Args:
            plan: What was planned for it.
            kind: How units of its kind run.
            entry_ports: Its ports that are fed by the graph's own inputs.
            unread_bound: Unread results of a session at which a stream unit makes no more of them.
            clock: What every wait goes by.
        """
        self.plan = plan
        self.kind = kind
        self.unread_bound = unread_bound
        self._is_ordered = plan.threads > 1 and kind.is_ordered
        policy = self._policy(entry_ports)
        width = max(1, len(plan.inputs)) if kind.is_matching else 1
        self.order = kind.order(policy, width, plan, clock)
        self.inbox = Inbox(
            plan.node, plan.inputs, policy, self.order, clock, is_matching=kind.is_matching
        )
        self.outbox = Outbox((), None, 0)
        self.exits = {}
        self.stats = [WorkerStats() for _ in range(plan.threads)]
        self._make = executor_of(plan.executor).prepare(plan.spec, plan.node)
        self._shared: dict[Device, FlowUnit] = {}
        self._users: dict[Device, int] = {}
        self._figures: dict[Device, Figures] = {}
        self._lock = threading.Lock()
        self._made: list[FlowUnit] = []
        self._is_closed = False

    def _policy(self, entry_ports: frozenset[int]) -> InboxPolicy:
        plan = self.plan
        unmatched = [
            UNMATCHED_BOUND if port in entry_ports else 1 << 62 for port in range(len(plan.inputs))
        ]
        return InboxPolicy(
            bounds=plan.bounds or (1,),
            batch_size=plan.batch_size,
            batch_timeout=plan.batch_timeout if self.kind.is_gathering else 0.0,
            byte_bound=plan.settings.queue_bytes,
            unmatched_bounds=tuple(unmatched) if entry_ports else (),
            is_ordered=self._is_ordered,
            is_measured=plan.spec.is_shared and plan.batch_size > 1,
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

    def call_of(self, unit: FlowUnit) -> UnitCall:
        """Returns what calls an opened instance of the unit."""
        plan = self.plan
        call = self.kind.call(
            unit,
            plan.spec,
            plan.node,
            inputs=plan.inputs,
            consumers=[len(route) for route in plan.routes],
            is_exception_visible=plan.is_exception_visible,
        )
        if self.kind.settle is not None:
            self.kind.settle(call, plan)
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

    # -- units ----------------------------------------------------------------------------------

    def open_unit(self, device: Device) -> FlowUnit:
        """Gives an opened instance; where the unit is shared, the one of this device.

        Raises:
            OpeningInterrupted: it did not open because it was interrupted.
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
                self._figures[device] = unit.figures()
                del self._shared[device]
        unit.close()

    def _opened(self, device: Device) -> FlowUnit:
        plan = self.plan
        unit = self._make(device)
        unit.device = device
        unit.batch_size = plan.batch_size
        unit.allowed_batch_sizes = plan.allowed_batch_sizes
        self._made.append(unit)  # before it opens: a stop interrupts that, too
        try:
            unit.open(plan.config)
        except Exception as error:
            if self._is_closed and type(unit).interrupt is not FlowUnit.interrupt:
                raise OpeningInterrupted from error
            raise
        return unit

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

    def tensor(self, port: str) -> TensorSpec | None:
        """Returns what an open shared unit knows of one item at ``port``; None: nothing."""
        with self._lock:
            units = list(self._shared.values())
        return next((unit.tensors().get(port) for unit in units), None)

    # -- figures --------------------------------------------------------------------------------

    def done(self) -> int:
        """Returns how many calls have been made: a figure that grows while something moves."""
        return sum(stats.batches for stats in self.stats)

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
        if self.inbox.stats is not None:
            stats = stats.with_queue(self.inbox.stats)
        with self._lock:
            running = {device: unit.figures() for device, unit in self._shared.items()}
            figures = {**self._figures, **running}
        return replace(stats, figures=_added(figures.values()))

    def close(self) -> None:
        """Wakes every worker and producer of this stage; what is queued is dropped."""
        self.inbox.close()
        self.outbox.close()
        self._is_closed = True
        for unit in list(self._made):
            try:
                unit.interrupt()
            except Exception:  # the author's; the others are to be interrupted all the same
                logger.exception("node %r: interrupt() raised", self.plan.node)


def _added(units: Iterable[Figures]) -> dict[str, dict[Any, int]]:
    total: dict[str, Counter[Any]] = {}
    for figures in units:
        for name, counts in figures.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in total.items()}
