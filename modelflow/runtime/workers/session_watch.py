"""Who watches single sessions is told of the batches that their rows are in.

A batch of node "resize" has two rows of session A and one of B, and A alone is watched: A's watcher
is told of two rows in a batch of three, from when to when, and of the error if one of the two
failed there.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from modelflow.buffer import Buffer
from modelflow.device import Device
from modelflow.error_log import item_of
from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.session.segment import Span
from modelflow.runtime.session.watcher import Part
from modelflow.runtime.stages.call import WAIT

# Characters of an error's text that are kept.
_LONGEST = 300


class CallTime(NamedTuple):
    """A unit's time with a batch; a chain's batch has one a unit.

    Attributes:
        plan: The unit.
        start: When it was called, by the clock.
        end: When it had come back.
    """

    plan: UnitPlan
    start: float
    end: float


def tell(
    spans: Sequence[Span],
    results: Sequence[Sequence[Any]],
    laps: Sequence[CallTime],
    device: Device,
    track: str,
) -> None:
    """Tells the watchers of a batch's sessions.

    Args:
        spans: Whose the rows are.
        results: What became of each row, a column an output; a cell is a buffer, a list of them,
            or None.
        laps: The units that were called, in this order.
        device: What they ran on.
        track: The worker that called them.
    """
    start, size = 0, sum(len(span.positions) for span in spans)
    for span in spans:
        rows = range(start, start + len(span.positions))
        start = rows.stop
        watcher = span.stream.session.watcher
        if watcher is None or not rows:
            continue
        errors = [_error_of([column[row] for column in results]) for row in rows]
        for part in parts_of(errors, laps, size, device, track):
            watcher.on_call(part)


def parts_of(
    errors: Sequence[FlowUnitError | None],
    laps: Sequence[CallTime],
    size: int,
    device: Device,
    track: str,
) -> list[Part]:
    """Returns what each unit did for some rows; nothing of one that was called for none of them.

    Args:
        errors: Of each row what it has failed with at the end, wherever that was.
        laps: The units that were called, in this order.
        size: Rows in the batch.
        device: What the units ran on.
        track: The worker that called them.
    """
    left = [plan.node for plan, _, _ in laps]
    parts = []
    for plan, start, end in laps:
        # Who has failed behind this unit had passed it; who came in error is of no node here.
        called = [one for one in errors if one is None or one.node in left]
        error = next((one for one in called if one is not None and one.node == plan.node), None)
        left.remove(plan.node)
        if called:
            unit = plan.spec.name
            parts.append(Part(plan.node, unit, device, start, end, size, len(called), error, track))
    return parts


def failures_of(results: Sequence[Sequence[Any]], node: str) -> tuple[Counter[str], str]:
    """Counts the rows that failed in a node, by what was raised: the name of its type.

    Those that were never given to its unit have not failed in it.

    Returns:
        The counts; and what the last of them was, and of which item, cut short.
    """
    found: Counter[str] = Counter()
    last: Buffer | None = None
    for row in itertools.zip_longest(*results):  # a stream unit's outputs may differ in length
        bad = _bad_of(row)
        error = None if bad is None else bad.error
        if error is not None and error.node == node and error.phase != WAIT:
            found[type(error.__cause__ or error).__name__] += 1
            last = bad
    if last is None or last.error is None:
        return found, ""
    item = item_of(last)
    text = f"{item}: {last.error.message}" if item else last.error.message
    return found, text[:_LONGEST]


def _error_of(cells: Sequence[Any]) -> FlowUnitError | None:
    bad = _bad_of(cells)
    return None if bad is None else bad.error


def _bad_of(cells: Sequence[Any]) -> Buffer | None:
    for cell in cells:
        for buffer in cell if isinstance(cell, list) else (cell,):
            if buffer is not None and buffer.error is not None:
                found: Buffer = buffer
                return found
    return None
