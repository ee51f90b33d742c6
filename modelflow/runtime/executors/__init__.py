"""Where the code of a unit runs: on the thread of its worker, or in a process of its own.

A stage asks its executor for an instance and calls it like any other unit; what comes between, the
instance hides: `ProcessUnit` sends batches to its process and gives back what comes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from modelflow.device import Device
from modelflow.runtime.executors.process_unit import ProcessUnit
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

__all__ = ["EXECUTORS", "Executor", "executor_of"]


@dataclass(frozen=True, slots=True)
class Executor:
    """A place where units run."""

    name: str
    """The node attribute ``workers``."""
    create: Callable[[FlowUnitSpec, str, Device], FlowUnit]
    """Makes an instance, not opened yet: description, node, device."""


def _on_thread(spec: FlowUnitSpec, node: str, device: Device) -> FlowUnit:  # noqa: ARG001
    return spec.create(device.kind)


def _in_process(spec: FlowUnitSpec, node: str, device: Device) -> FlowUnit:  # noqa: ARG001
    return ProcessUnit(spec, node)


EXECUTORS = {
    executor.name: executor
    for executor in (Executor("thread", _on_thread), Executor("process", _in_process))
}


def executor_of(name: str) -> Executor:
    """Returns the executor of that name, which the plan has checked."""
    return EXECUTORS[name]
