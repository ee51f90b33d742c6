"""The instances of one node's unit: one a worker, or one a device where the unit is shared.

Node "infer" with ``threads=2`` on two GPUs, of a shared unit: two workers, and two instances, one a
device; each is opened by its first worker and closed by its last.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from modelflow.device import Device
from modelflow.plan import UnitPlan
from modelflow.runtime.stages.executors import executor_of
from modelflow.runtime.stats import NodeStats
from modelflow.unit.unit import FlowUnit
from modelflow.wire.tensor import TensorSpec

logger = logging.getLogger("modelflow")

Figures = Mapping[str, Mapping[Any, int]]
Replicas = Mapping[str, Mapping[str, NodeStats]]


class OpeningInterrupted(Exception):  # noqa: N818 - it is no failure
    """The flow was stopped while a unit opened, and the unit has given that up."""


class UnitInstances:
    """Makes, opens, shares and closes the instances of a node's unit."""

    plan: UnitPlan
    """What was planned for the node."""

    def __init__(self, plan: UnitPlan, batch_size: int, executor: str) -> None:
        """Makes nothing yet.

        Args:
            plan: What was planned for the node.
            batch_size: Most rows in a call.
            executor: Where the unit runs; see `StagePlan.executor`.
        """
        self.plan = plan
        self._batch_size = batch_size
        self._is_here = executor == "thread"
        self._make = executor_of(executor).prepare(plan.spec, plan.node)
        self._shared: dict[Device, FlowUnit] = {}
        self._users: dict[Device, int] = {}
        self._figures: dict[Device, Figures] = {}
        self._replicas: dict[Device, Replicas] = {}
        self._lock = threading.Lock()
        self._made: dict[int, FlowUnit] = {}  # by identity: those that are not closed
        self._is_interrupted = False

    def load(self, device: Device) -> None:
        """Imports what instances need, where they run in this process.

        Raises:
            Exception: whatever a module raises when it is imported.
        """
        module = self.plan.spec.load(device.kind) if self._is_here else None
        if module is not None:
            from modelflow.image.opencv import opencv, uses_opencv  # only for those who have units

            if uses_opencv(module):
                opencv()

    def open(self, device: Device) -> FlowUnit:
        """Gives an opened instance; where the unit is shared, the one of this device.

        Raises:
            OpeningInterrupted: it did not open because it was interrupted.
            Exception: whatever the unit's constructor or ``open`` raised.
        """
        if not self.plan.spec.is_shared:
            return self._open(device)
        with self._lock:  # the others wait while the first one opens
            unit = self._shared.get(device)
            if unit is None:
                unit = self._shared[device] = self._open(device)
            self._users[device] = self._users.get(device, 0) + 1
            return unit

    def close(self, unit: FlowUnit, device: Device) -> None:
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
                self._replicas[device] = unit.elsewhere()
                del self._shared[device]
        self._made.pop(id(unit), None)
        unit.close()
        if self.plan.spec.is_shared:  # what runs elsewhere has told all now
            last = unit.elsewhere()
            with self._lock:
                self._replicas[device] = last

    def _open(self, device: Device) -> FlowUnit:
        unit = self._make(device)
        unit.device = device
        unit.batch_size = self._batch_size
        unit.allowed_batch_sizes = self.plan.allowed_batch_sizes
        self._made[id(unit)] = unit  # before it opens: a stop interrupts that, too
        if self._is_interrupted and type(unit).interrupt is not FlowUnit.interrupt:
            raise OpeningInterrupted
        try:
            unit.open(self.plan.config)
        except Exception as error:
            self._made.pop(id(unit), None)
            if self._is_interrupted and type(unit).interrupt is not FlowUnit.interrupt:
                raise OpeningInterrupted from error
            raise
        return unit

    def interrupt(self) -> None:
        """Tells every instance that the flow ends, and nobody waits for its call any more."""
        self._is_interrupted = True
        for unit in list(self._made.values()):
            try:
                unit.interrupt()
            except Exception:  # the author's; the others are to be interrupted all the same
                logger.exception("node %r: interrupt() raised", self.plan.node)

    def reload(self) -> None:
        """Lets the shared instances take up what has changed outside; on the caller's thread.

        Raises:
            NotImplementedError: the unit has nothing to take up.
            Exception: whatever its ``reload`` raised.
        """
        with self._lock:
            units = list(self._shared.values())
        if not units:
            raise NotImplementedError(f"unit {self.plan.spec.name!r} has nothing to reload")
        for unit in units:
            unit.reload()

    def tensor(self, port: str) -> TensorSpec | None:
        """Returns what an open shared unit knows of one item at ``port``; None: nothing."""
        with self._lock:
            units = list(self._shared.values())
        return next((unit.tensors().get(port) for unit in units), None)

    def figures(self) -> dict[str, dict[Any, int]]:
        """Returns the counters of the shared instances, added up; closed ones included."""
        with self._lock:
            running = {device: unit.figures() for device, unit in self._shared.items()}
            figures = {**self._figures, **running}
        return _add(figures.values())

    def replicas(self) -> dict[str, dict[str, NodeStats]]:
        """Returns what nodes have done that run elsewhere for the shared instances."""
        with self._lock:
            units, before = dict(self._shared), dict(self._replicas)
        now = {device: unit.elsewhere() for device, unit in units.items()}  # it may wait
        found = {**before, **now}.values()
        return {name: dict(nodes) for replicas in found for name, nodes in replicas.items()}


def _add(units: Iterable[Figures]) -> dict[str, dict[Any, int]]:
    total: dict[str, Counter[Any]] = {}
    for figures in units:
        for name, counts in figures.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in total.items()}
