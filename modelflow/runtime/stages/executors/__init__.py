"""Executors: a unit runs on the thread of its worker, or in a process of its own.

A stage gets an instance from its executor, and calls the instance like any other unit. The instance
hides the process: `ProcessUnit` sends batches to its process and emits the results that come back.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from modelflow.device import Device
from modelflow.runtime.stages.executors.process_unit import ProcessUnit
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

__all__ = ["EXECUTORS", "Executor", "executor_of"]


@dataclass(frozen=True, slots=True)
class Executor:
    """A place where units run."""

    name: str
    """The node attribute ``workers``."""
    prepare: Callable[[FlowUnitSpec, str], Callable[[Device], FlowUnit]]
    """Returns a function that creates an instance for a device, from the unit's spec and the node.

    Called before any thread of the flow runs. The instance is not opened yet.
    """


def _on_thread(spec: FlowUnitSpec, node: str) -> Callable[[Device], FlowUnit]:  # noqa: ARG001
    return lambda device: spec.create(device.kind)


def _in_process(spec: FlowUnitSpec, node: str) -> Callable[[Device], FlowUnit]:
    # Copied now, before threads run. A library may change ``sys.path`` during its import, as OpenCV
    # does. A process that starts meanwhile would import the library's modules instead of Python's.
    search_path = tuple(sys.path)
    return lambda _device: ProcessUnit(spec, node, search_path)


EXECUTORS = {
    executor.name: executor
    for executor in (Executor("thread", _on_thread), Executor("process", _in_process))
}


def executor_of(name: str) -> Executor:
    """Returns the executor of that name, which the plan has checked."""
    return EXECUTORS[name]
