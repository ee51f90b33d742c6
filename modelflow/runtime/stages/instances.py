"""The instances of one node's unit: an instance per worker, or per device if the unit is shared.

Example: node "infer" runs a shared unit with ``threads=4`` on two GPUs. It has four workers and two
instances. The first worker of a device opens the instance, and the last worker closes it.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from modelflow.device import Device
from modelflow.plan import UnitPlan
from modelflow.runtime.stages.executors import executor_of
from modelflow.runtime.stats import NodeStats
from modelflow.signals import new_lock
from modelflow.unit.unit import FlowUnit
from modelflow.wire.tensor import TensorSpec

logger = logging.getLogger("modelflow")

Figures = Mapping[str, Mapping[Any, int]]
Replicas = Mapping[str, Mapping[str, NodeStats]]


class OpeningInterrupted(Exception):  # noqa: N818 - it is no failure
    """The flow was stopped while a unit was in ``open``, and the unit did not open."""


class UnitInstances:
    """The instances of a node's unit: creates, opens, shares and closes them."""

    plan: UnitPlan
    """The plan of the node."""

    def __init__(self, plan: UnitPlan, batch_size: int, executor: str) -> None:
        """Prepares the instances, but creates none.

        Args:
            plan: The plan of the node.
            batch_size: The most rows of a call.
            executor: Where the unit runs; see `StagePlan.executor`.
        """
        self.plan = plan
        self._batch_size = batch_size
        self._is_here = executor == "thread"
        self._make = executor_of(executor).prepare(plan.spec, plan.node)
        self._shared: dict[Device, FlowUnit] = {}
        self._users: dict[Device, int] = {}
        self._past: Figures = {}  # the counters of closed instances
        self._opened: dict[int, FlowUnit] = {}  # by ``id()``
        self._replicas: dict[Device, Replicas] = {}
        self._lock = new_lock()
        self._made: dict[int, FlowUnit] = {}  # open instances by ``id()``
        self._is_interrupted = False

    def load(self, device: Device) -> None:
        """Imports the module of the unit if instances run in this process.

        Raises:
            Exception: an error of a module during its import.
        """
        module = self.plan.spec.load(device.kind) if self._is_here else None
        if module is not None:
            from modelflow.image.opencv import opencv, uses_opencv  # needed only here

            if uses_opencv(module):
                opencv()

    def open(self, device: Device) -> FlowUnit:
        """Returns an opened instance; if the unit is shared, the instance of this device.

        Raises:
            OpeningInterrupted: the unit did not open because it was interrupted.
            Exception: an error of the unit's constructor or ``open``.
        """
        if not self.plan.spec.is_shared:
            unit = self._open(device)
            with self._lock:
                self._opened[id(unit)] = unit
            return unit
        with self._lock:  # other workers wait while the first opens the instance
            shared = self._shared.get(device)
            if shared is None:
                shared = self._shared[device] = self._open(device)
                self._opened[id(shared)] = shared
            self._users[device] = self._users.get(device, 0) + 1
            return shared

    def close(self, unit: FlowUnit, device: Device) -> None:
        """Closes an instance; if shared, only when its last worker calls this.

        Raises:
            Exception: an error of the unit's ``close``.
        """
        if self.plan.spec.is_shared:
            with self._lock:
                self._users[device] -= 1
                if self._users[device]:
                    return
                self._replicas[device] = unit.elsewhere()
                del self._shared[device]
        self._keep_figures(unit)
        self._made.pop(id(unit), None)
        unit.close()
        if self.plan.spec.is_shared:  # remote nodes have sent their last statistics
            last = unit.elsewhere()
            with self._lock:
                self._replicas[device] = last

    def _open(self, device: Device) -> FlowUnit:
        unit = self._make(device)
        unit.device = device
        unit.batch_size = self._batch_size
        unit.allowed_batch_sizes = self.plan.allowed_batch_sizes
        self._made[id(unit)] = unit  # before ``open``, which a stop must be able to interrupt
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
        """Calls ``interrupt`` of every instance, because the flow ends and drops its results."""
        self._is_interrupted = True
        for unit in list(self._made.values()):
            try:
                unit.interrupt()
            except Exception:  # of the unit; the other instances must be interrupted too
                logger.exception("node %r: interrupt() raised", self.plan.node)

    def reload(self) -> None:
        """Calls ``reload`` of the shared instances, on the caller's thread.

        Raises:
            NotImplementedError: the unit has nothing to reload.
            Exception: an error of the unit's ``reload``.
        """
        with self._lock:
            units = list(self._shared.values())
        if not units:
            raise NotImplementedError(f"unit {self.plan.spec.name!r} has nothing to reload")
        for unit in units:
            unit.reload()

    def tensor(self, port: str) -> TensorSpec | None:
        """Returns the tensor of an item at ``port``, from an open shared unit, or None."""
        with self._lock:
            units = list(self._shared.values())
        return next((unit.tensors().get(port) for unit in units), None)

    def figures(self) -> dict[str, dict[Any, int]]:
        """Returns the summed counters of the instances, closed instances included."""
        with self._lock:
            return _add([self._past, *(unit.figures() for unit in self._opened.values())])

    def _keep_figures(self, unit: FlowUnit) -> None:
        with self._lock:
            del self._opened[id(unit)]
            self._past = _add([self._past, unit.figures()])

    def replicas(self) -> dict[str, dict[str, NodeStats]]:
        """Returns the statistics of remote nodes that work for the shared instances."""
        with self._lock:
            units, before = dict(self._shared), dict(self._replicas)
        # Without the lock, because `elsewhere` may wait.
        now = {device: unit.elsewhere() for device, unit in units.items()}
        found = {**before, **now}.values()
        return {name: dict(nodes) for replicas in found for name, nodes in replicas.items()}


def _add(units: Iterable[Figures]) -> dict[str, dict[Any, int]]:
    total: dict[str, Counter[Any]] = {}
    for figures in units:
        for name, counts in figures.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in total.items()}
