"""How a batch is given to a unit where one plain call will not do: stream by stream, on a device.

A batch has two rows of session "3" and one of session "4". A unit that is called for one stream at
a time is called twice. Where the unit runs on a device, the three rows are moved there first; if
that fails, each of them is in error, and the unit passes them on.
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
    """Makes a call for each stream of a batch; ``call`` counts then what failed in all of them.

    Args:
        call: What calls the unit.
        batch: With rows.
        has_errors: Some of them may be in error.

    Returns:
        For each output, what all rows became.
    """
    failed, has_given_errors, results = 0, False, []
    for span, columns in cut(batch, batch.columns):
        if columns[0]:
            results.append(call.process(columns, has_errors, partial(_same, span.stream)))
            failed += call.failed
            has_given_errors = has_given_errors or call.has_errors
    call.failed, call.has_errors = failed, has_given_errors
    return [[b for result in results for b in result[port]] for port in range(len(results[0]))]


def _same(stream: Stream, row: int) -> Stream:  # noqa: ARG001 - every row is of this one
    return stream


class OnDevice:
    """A worker's device: batches are brought there, and results to who awaits them elsewhere.

    What cannot be moved is an error of each row that it concerns, which names the node.
    """

    def __init__(self, transfer: Transfer, plan: UnitPlan, is_per_stream: bool) -> None:
        """Takes what does not change between batches.

        Args:
            transfer: What moves data.
            plan: The unit that errors name.
            is_per_stream: A call for each stream of a batch.
        """
        self._transfer = transfer
        self._plan = plan
        self._is_per_stream = is_per_stream

    def process(self, call: BatchCall, batch: Batch, has_errors: bool) -> tuple[Columns, bool]:
        """Brings a batch there, makes the call, and marks or moves what it gave.

        Args:
            call: What calls the unit.
            batch: With rows.
            has_errors: Some of them may be in error.

        Returns:
            For each output, what the rows became; and whether rows were in error before the call.
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
        """Brings a batch to the device; True where that failed, for all of its rows."""
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
