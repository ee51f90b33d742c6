"""Calls of a unit that need more than a plain call: stream by stream, or on a device.

Example: a batch has two rows of session "3" and one row of session "4". A unit that takes one
stream per call is called twice. If the unit runs on a device, the three rows are moved to the
device first. If that fails, all three rows get an error, like rows that failed in an earlier node.
"""

from functools import partial
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.plan import UnitPlan
from modelflow.runtime.session.segment import Batch, Columns, Stream
from modelflow.runtime.stages.call import BatchCall
from modelflow.runtime.stages.outbox import cut
from modelflow.runtime.stages.transfer import Transfer


def process_by_stream(call: BatchCall, batch: Batch, has_errors: bool) -> Columns:
    """Calls a unit for each stream of a batch, and sums the failures in ``call``.

    Args:
        call: The call of the unit.
        batch: A batch with at least one row.
        has_errors: True if a row may be in error.

    Returns:
        The results of all rows, a column for each output.
    """
    failed, has_given_errors, results = 0, False, []
    for span, columns in cut(batch, batch.columns):
        if columns[0]:
            results.append(call.process(columns, has_errors, partial(_same, span.stream)))
            failed += call.failed
            has_given_errors = has_given_errors or call.has_errors
    call.failed, call.has_errors = failed, has_given_errors
    return [[b for result in results for b in result[port]] for port in range(len(results[0]))]


def _same(stream: Stream, row: int) -> Stream:  # noqa: ARG001 - every row is of this stream
    return stream


class OnDevice:
    """The calls on a worker's device: moves batches to the device, and results to their consumers.

    If data cannot be moved, each of its rows gets an error that names the node.
    """

    def __init__(self, transfer: Transfer, plan: UnitPlan, is_per_stream: bool) -> None:
        """Stores the values that do not change between batches.

        Args:
            transfer: Moves the data.
            plan: The unit that errors name.
            is_per_stream: True if each stream of a batch needs a call of its own.
        """
        self._transfer = transfer
        self._plan = plan
        self._is_per_stream = is_per_stream

    def process(self, call: BatchCall, batch: Batch, has_errors: bool) -> tuple[Columns, bool]:
        """Moves a batch to the device, calls the unit, and marks or moves the results.

        Args:
            call: The call of the unit.
            batch: A batch with at least one row.
            has_errors: True if a row may be in error.

        Returns:
            The results, a column for each output, and whether a row may have been in error before
            the call.
        """
        with self._transfer.running():
            has_errors = self.arrive(batch) or has_errors
            if self._is_per_stream:
                results = process_by_stream(call, batch, has_errors)
            else:
                results = call.process(batch.columns, has_errors, batch.stream_of)
            try:
                self._transfer.depart(results)
            except Exception as error:
                call.failed, call.has_errors = len(batch.columns[0]), True
                results = [[self._fail_move(error) for _ in column] for column in results]
        return results, has_errors

    def arrive(self, batch: Batch) -> bool:
        """Moves a batch to the device; returns True if that failed, and all rows got an error."""
        try:
            batch.columns = self._transfer.arrive(batch.columns)
        except Exception as error:
            columns: list[list[Any]] = list(batch.columns)
            for place, column in enumerate(columns):
                bad = [self._fail_move(error) for _ in column]
                columns[place] = [
                    [b] if isinstance(cell, list) else b
                    for b, cell in zip(bad, column, strict=True)
                ]
            batch.columns = columns
            return True
        return False

    def _fail_move(self, error: Exception) -> Buffer:
        failure = FlowUnitError.from_exception(
            error, node=self._plan.node, unit=self._plan.spec.name, phase="transfer"
        )
        return Buffer.from_error(failure)
