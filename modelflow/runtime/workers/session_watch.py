"""Reports of batches to the watchers of single sessions.

Example: a batch of node "resize" has two rows of session A and a row of session B, and only A has a
watcher. The watcher gets the report of two rows in a batch of three, with start and end. The report
includes the error if one of the two rows failed in the node.
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

# The most characters of an error's text that are kept.
_LONGEST = 300


class CallTime(NamedTuple):
    """The time of a unit's call for a batch; a chain has such a time for each unit.

    Attributes:
        plan: The unit.
        start: The time of the call, by the clock.
        end: The time when the call returned.
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
    """Reports a batch to the watchers of its sessions.

    Args:
        spans: The streams of the rows.
        results: The results of each row, with a column for each output. A cell is a buffer, a list
            of buffers, or None.
        laps: The units that were called, in this order.
        device: The device of the units.
        track: The worker that called the units.
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
    """Returns a report of each unit that was called for any of these rows.

    Args:
        errors: The final error of each row, of any node, or None.
        laps: The units that were called, in this order.
        size: The number of rows in the batch.
        device: The device of the units.
        track: The worker that called the units.
    """
    left = [plan.node for plan, _, _ in laps]
    parts = []
    for plan, start, end in laps:
        # A row that failed in a later unit of the chain has passed this unit. A row that was in
        # error before the batch has the error of another node.
        called = [one for one in errors if one is None or one.node in left]
        error = next((one for one in called if one is not None and one.node == plan.node), None)
        left.remove(plan.node)
        if called:
            unit = plan.spec.name
            parts.append(Part(plan.node, unit, device, start, end, size, len(called), error, track))
    return parts


def failures_of(results: Sequence[Sequence[Any]], node: str) -> tuple[Counter[str], str]:
    """Counts the rows that failed in a node, by the type name of the exception.

    Rows that were never passed to the unit are not counted.

    Returns:
        The counts, and the shortened text of the last error with its item.
    """
    found: Counter[str] = Counter()
    last: Buffer | None = None
    for row in itertools.zip_longest(*results):  # the outputs of a stream unit may differ in length
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
