"""A running node: its inbox, its outbox, its unit instances."""

import threading

from modelflow.device import Device
from modelflow.flowunit.unit import FlowUnit
from modelflow.plan import StagePlan
from modelflow.runtime.clock import Clock
from modelflow.runtime.inbox import Inbox, InboxPolicy
from modelflow.runtime.outbox import Outbox, Route
from modelflow.runtime.stats import NodeStats, WorkerStats

__all__ = ["Stage"]

# Buffers of one input of the graph that may wait for partners that their caller has not sent.
UNMATCHED_BOUND = 1024


class Stage:
    """One node while it runs; made by the scheduler, used by its workers.

    Attributes:
        plan: What it was made from.
        inbox: In front of it.
        outbox: Behind it; set by `connect`.
        stats: The counters of its workers.
    """

    def __init__(self, plan: StagePlan, entry_ports: frozenset[int], clock: Clock) -> None:
        """Makes a stage whose ports in ``entry_ports`` are fed by the graph's own inputs."""
        self.plan = plan
        self.is_ordered = plan.threads > 1
        unmatched = [
            UNMATCHED_BOUND if port in entry_ports else 1 << 62 for port in range(len(plan.inputs))
        ]
        self.inbox = Inbox(
            plan.node,
            plan.inputs,
            InboxPolicy(
                bounds=plan.bounds or (1,),
                batch_size=plan.batch_size,
                batch_timeout=plan.batch_timeout,
                byte_bound=plan.byte_bound,
                unmatched_bounds=tuple(unmatched) if entry_ports else (),
                is_ordered=self.is_ordered,
            ),
            clock,
        )
        self.outbox = Outbox((), is_ordered=False, limit=0)
        self.stats = [WorkerStats() for _ in range(plan.threads)]
        self._shared: dict[Device, FlowUnit] = {}
        self._users: dict[Device, int] = {}
        self._lock = threading.Lock()

    def connect(self, routes: tuple[Route, ...]) -> None:
        """Gives the stage what its outputs feed."""
        limit = max(self.plan.bounds, default=1) + self.plan.threads * self.plan.batch_size
        self.outbox = Outbox(routes, is_ordered=self.is_ordered, limit=limit)

    def device_of(self, worker: int) -> Device:
        """Returns the device of worker number ``worker``."""
        return self.plan.devices[worker % len(self.plan.devices)]

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
        return NodeStats.of(plan.node, plan.spec.name, self.stats, self.inbox.ready)

    def close(self) -> None:
        """Wakes every worker and producer of this stage; what is queued is dropped."""
        self.inbox.close()
        self.outbox.close()

    def _opened(self, device: Device) -> FlowUnit:
        unit = self.plan.spec.create(device.kind)
        unit.device = device
        unit.batch_size = self.plan.batch_size
        unit.open(self.plan.config)
        return unit
