"""Deadlines of rows: a row whose time has passed is an error before the unit is called.

A batch of three rows with the deadlines 10.0, none and 12.0 at 11.0: the first becomes
``Buffer(error=FlowUnitError(DeadlineExceeded))``, the others are called; what comes of the third is
due at 12.0 again.
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
    """Returns the earliest deadline of each row, over all ports and all of a gathered stream."""
    column, *others = columns
    if not others and column and type(column[0]) is Buffer:  # as below, at less cost: most rows
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
    """Has every row that nobody waits for any more be past its deadline."""
    start = 0
    for span in batch.spans:
        request_batch = span.stream.session.request_batch
        if request_batch is not None and request_batch.gone:
            for row, position in enumerate(span.positions, start):
                if position in request_batch.gone:
                    batch.columns[0][row]._deadline = -math.inf
        start += len(span.positions)


def carry(deadlines: Sequence[float | None], results: Sequence[Sequence[Any]]) -> None:
    """Gives what has become of each row the row's deadline."""
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
    """Puts an error in the place of every row whose deadline has passed.

    Args:
        columns: The rows; at a collapse a cell is the list of its stream.
        deadlines: Their deadlines, by the clock; None: it has none.
        now: The clock's time.
        plan: The unit that is about to be called.
        stream_of: Gives the stream of a row.
        stats: What counts them.

    Returns:
        The columns to go on with; None: every row is in time, or in error already.
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
