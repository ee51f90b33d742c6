"""Where the code of a unit runs: on the thread of its worker, or in a process of its own.

A stage asks its executor for an instance and calls it like any other unit; what comes between, the
instance hides: `ProcessUnit` sends batches to its process and gives back what comes.
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
    """Given description and node, before any thread of the flow runs, gives what makes an instance,
    not opened yet, for a device."""


def _on_thread(spec: FlowUnitSpec, node: str) -> Callable[[Device], FlowUnit]:  # noqa: ARG001
    return lambda device: spec.create(device.kind)


def _in_process(spec: FlowUnitSpec, node: str) -> Callable[[Device], FlowUnit]:
    # Now: a library that another node's thread imports may change it for a moment, as OpenCV does,
    # and a process started then would find that library's own modules in the place of Python's.
    search_path = tuple(sys.path)
    return lambda _device: ProcessUnit(spec, node, search_path)


EXECUTORS = {
    executor.name: executor
    for executor in (Executor("thread", _on_thread), Executor("process", _in_process))
}


def executor_of(name: str) -> Executor:
    """Returns the executor of that name, which the plan has checked."""
    return EXECUTORS[name]
