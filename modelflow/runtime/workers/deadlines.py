"""Deadlines of rows: a row whose deadline has passed becomes an error before the unit is called.

Example: at time 11.0, a batch has three rows with the deadlines 10.0, 12.0 and none. The first row
becomes ``Buffer(error=FlowUnitError(DeadlineExceeded))``, and the unit is called for the others.
The results of the second row have the deadline 12.0 again.
"""

import math
from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import DeadlineExceeded, FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.session.segment import Batch, Columns
from modelflow.runtime.stages.call import WAIT, StreamOf
from modelflow.runtime.stats import WorkerStats


def deadlines_of(columns: Columns) -> list[float | None]:
    """Returns the earliest deadline of each row, over all ports and gathered buffers."""
    column, *others = columns
    # the same as below, but faster for the most frequent case
    if not others and column and type(column[0]) is Buffer:
        return [buffer._deadline for buffer in column]
    return [
        min(
            (
                buffer._deadline
                for cell in cells
                for buffer in (cell if isinstance(cell, list) else (cell,))
                if buffer._deadline is not None
            ),
            default=None,
        )
        for cells in zip(*columns, strict=True)
    ]


def give_up_gone(batch: Batch) -> None:
    """Sets the deadline of every cancelled row of a request batch to a time in the past."""
    start = 0
    for span in batch.spans:
        request_batch = span.stream.session.request_batch
        if request_batch is not None and request_batch.gone:
            for row, position in enumerate(span.positions, start):
                if position in request_batch.gone:
                    batch.columns[0][row]._deadline = -math.inf
        start += len(span.positions)


def carry(deadlines: Sequence[float | None], results: Sequence[Sequence[Any]]) -> None:
    """Sets the deadline of the results of each row to the deadline of the row."""
    for column in results:
        for due, cell in zip(deadlines, column, strict=True):
            if due is not None and cell is not None:
                for buffer in cell if isinstance(cell, list) else (cell,):
                    buffer._deadline = due


def expire(
    columns: Columns,
    deadlines: Sequence[float | None],
    now: float,
    plan: UnitPlan,
    stream_of: StreamOf,
    stats: WorkerStats,
) -> Columns | None:
    """Replaces every row whose deadline has passed by an error.

    Args:
        columns: The rows. At a collapse, a cell is the list of a whole stream.
        deadlines: The deadline of each row, by the clock, or None.
        now: The clock's time.
        plan: The unit that will be called next.
        stream_of: Returns the stream of a row.
        stats: The counters, of which ``expired`` increases.

    Returns:
        The new columns, or None if every row is in time or already in error.
    """
    first: list[Any] | None = None
    for row, due in enumerate(deadlines):
        if due is None or due >= now:
            continue
        cell: Any = columns[0][row]
        whole = cell if isinstance(cell, list) else [cell]
        if any(buffer.error is not None for buffer in whole):
            continue
        first = list(columns[0]) if first is None else first
        stats.expired += 1
        bad = _make_expired(whole[0], plan, stream_of(row))
        first[row] = [bad] if whole is cell else bad
    return None if first is None else [first, *columns[1:]]


def _make_expired(buffer: Buffer, plan: UnitPlan, stream: Any) -> Buffer:
    message = "its deadline passed before the unit was called"
    error = FlowUnitError.from_exception(
        DeadlineExceeded(message),
        node=plan.node,
        unit=plan.spec.name,
        phase=WAIT,
        session=stream.session.name,
    )
    return Buffer.from_error(error, buffer.meta)
