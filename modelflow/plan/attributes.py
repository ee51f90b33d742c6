"""Reads node attributes that only some units have, or only some machines support."""

import os

from modelflow.errors import PlanError
from modelflow.graph.node import Node


def read_allowed_sizes(node: Node, batch_size: int) -> tuple[int, ...]:
    """Returns ``allowed_batch_sizes`` in rising order; the largest must equal a given batch size.

    Raises:
        PlanError: the sizes differ, or the unit is no inference unit.
    """
    sizes = tuple(sorted(set(node.settings.allowed_batch_sizes)))
    if not sizes:
        return ()
    if node.settings.batch_size and sizes[-1] != batch_size:
        raise _wrong(
            node,
            f"allowed_batch_sizes: the largest is {sizes[-1]}, batch_size is {batch_size}; "
            "expected the same (or no batch_size)",
        )
    if node.spec is None or not node.spec.is_shared:
        raise _wrong(
            node, "allowed_batch_sizes is for inference units; this one gets batches as they are"
        )
    return sizes


def check_split_size(node: Node) -> None:
    """Checks that the unit supports ``split_size``.

    Raises:
        PlanError: the unit is no normal unit.
    """
    if node.settings.split_size and (node.spec is None or not node.spec.kind.is_plain):
        raise _wrong(
            node, "split_size is for normal units, whose batches hold buffers of several sessions"
        )


def affinity(node: Node) -> frozenset[int]:
    """Parses ``cpu_affinity``, such as ``0-3,6``; an empty set means any processor.

    Raises:
        PlanError: the text has another form, or names processors that this process may not use.
    """
    text, usable = node.settings.cpu_affinity.replace(" ", ""), os.sched_getaffinity(0)
    found: set[int] = set()
    for part in text.split(",") if text else []:
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and len(last) <= 4):
            raise _wrong(
                node, f"cpu_affinity: got {text!r}; expected numbers and ranges such as '0-3,6'"
            )
        found.update(range(int(first), int(last) + 1))
    if found - usable or (text and not found):
        raise _wrong(node, f"cpu_affinity: got {text!r}; this process may use {sorted(usable)}")
    return frozenset(found)


def executor(node: Node) -> str:
    """Returns the kind of workers for the node's unit: ``workers``, ``"thread"`` or ``"process"``.

    Raises:
        PlanError: the unit does not support this kind of workers.
    """
    spec = node.spec
    if node.settings.workers == "thread" or spec is None:
        return "thread"
    if not spec.kind.is_plain:
        raise _wrong(node, f"workers='process' is for normal units; this is a {spec.kind} unit")
    if spec.is_shared or spec.kind.is_per_stream or spec.is_exception_given:
        reason = "shares its instance" if spec.is_shared else "needs its session at hand"
        raise _wrong(node, f"workers='process': unit {spec.name!r} {reason}; leave workers out")
    if any(device.kind != "cpu" for device in node.devices):
        raise _wrong(node, "workers='process' is for units on the cpu")
    return node.settings.workers


def _wrong(node: Node, what: str) -> PlanError:
    return PlanError(f"{node.location}: node {node.name!r}: {what}")
