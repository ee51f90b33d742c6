"""Normal units and sinks, which are called with a batch and give a result for each row.

If a call fails, the batch is tried again in halves until only the rows that cause the error fail.
Example: of the rows 1-8, row 6 makes the unit raise::

    rows of the call   1-8      1-4      5-8      5-6      5        6        7-8
    result             raises   passes   raises   raises   passes   raises   passes

The error of the call with row 6 becomes the result of row 6.
"""

from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from types import CoroutineType
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import WorkerProcessError
from modelflow.plan import UnitPlan
from modelflow.runtime.session.segment import Columns
from modelflow.runtime.stages.call import (
    BatchCall,
    StreamOf,
    UnitCall,
    claim,
    make_return_error,
    place_of,
)
from modelflow.runtime.stages.inheriting import inherit
from modelflow.runtime.stages.kind import RunningKind
from modelflow.runtime.stages.sharing import freeze
from modelflow.unit.function_units import FunctionUnit
from modelflow.unit.unit import Context, FlowUnit


class NormalCall(UnitCall, BatchCall):
    """The call of a normal unit, or of a sink, for whole batches."""

    # The numbers of results and of rows in the first call of a batch where they differed.
    _first_miscount: tuple[int, int] | None = None

    def __init__(self, unit: FlowUnit, plan: UnitPlan) -> None:
        """Stores the values that do not change between batches; see `UnitCall`."""
        super().__init__(unit, plan)
        self._compute_column = unit.compute_column if isinstance(unit, FunctionUnit) else None
        has_plain_context = not (self._is_per_stream or self._is_telling or self._compute_column)
        self._is_simple = self._is_one_to_one and has_plain_context

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit over a batch; see `BatchCall.process`."""
        self.failed, self.has_errors, self._first_miscount = 0, False, None
        if self._input_types is not None and not self._is_exception_visible:
            columns, is_wrong = self._check_inputs(columns, stream_of)
            has_errors = has_errors or is_wrong
        if has_errors and not self._is_exception_visible:
            return self._process_good(columns, stream_of)
        if self._in_place:
            return self._process_batch(columns, stream_of)
        return self._process_all(columns, stream_of)

    def _process_batch(self, columns: Columns, stream_of: StreamOf) -> Columns:
        if self._in_place and len(columns[0]) > 1:
            # Row by row, because a failing call may have changed the inputs of half of its batch.
            return self._process_rows(columns, stream_of)
        return self._process_all(self._writable(columns), stream_of)

    def _process_all(self, columns: Columns, stream_of: StreamOf) -> Columns:
        context = None
        if self._is_simple:
            context = Context({self.inputs[0]: columns[0]}, {self._outputs[0]: []})
        elif self._compute_column is None:
            context = self._context_of(columns, stream_of)
        size, failed, has_errors = len(columns[0]), self.failed, self.has_errors
        settled: Columns = []
        try:
            if self._compute_column is not None:
                settled.append(self._settle(self._compute_column(columns[0]), 0, columns))
            elif context is not None:
                # `_run` is inlined here, because every item of most graphs takes this path.
                returned: object = self.unit.process(context)  # type: ignore[func-returns-value]
                if returned is not None:
                    raise make_return_error(self.unit, returned)
                for place, name in enumerate(self._outputs):
                    settled.append(self._settle(context.outputs.pop(name), place, columns))
            if self._output_types is None:
                return settled or [columns[0]]
            return self._check_outputs(settled, stream_of)
        except BaseException as error:
            self.failed, self.has_errors = failed, has_errors
            retry = self._retry_of(error, size, columns, stream_of)
        # Outside the handler. Otherwise the errors of the parts would keep the batch's error in
        # memory, as their context.
        return retry(columns, stream_of)

    def _retry_of(
        self, error: BaseException, size: int, columns: Columns, stream_of: StreamOf
    ) -> Callable[[Columns, StreamOf], Columns]:
        """Returns the function that returns the results of a batch whose call failed."""
        if size == 1 or not self.spec.kind.is_batch_retried:
            failed = self._everywhere(self._failures(error, size, columns, stream_of))
            return lambda *_: failed
        claim(error)
        # If the process of a unit has ended, each half with the bad row would end another one.
        is_process_gone = isinstance(error, WorkerProcessError)
        return self._process_rows if is_process_gone else self._process_halves

    def _context_of(self, columns: Columns, stream_of: StreamOf) -> Context:
        if self._is_per_stream:
            return self._context(columns, stream_of(0))
        context = self._context(columns, None)
        if self._is_telling:
            streams = map(stream_of, range(len(columns[0])))
            context.watchers = [one and one.session.watcher for one in streams]
        return context

    def _process_halves(self, columns: Columns, stream_of: StreamOf) -> Columns:
        """Runs a failed batch again in halves, until the rows that cause the error are single."""
        middle = len(columns[0]) // 2
        first = self._process_all([column[:middle] for column in columns], stream_of)
        second = self._process_all(
            [column[middle:] for column in columns], lambda row: stream_of(middle + row)
        )
        return [[*one, *other] for one, other in zip(first, second, strict=True)]

    def _process_rows(self, columns: Columns, stream_of: StreamOf) -> Columns:
        rows = [
            self._process_all(
                self._writable([[column[row]] for column in columns]), _shift(stream_of, row)
            )
            for row in range(len(columns[0]))
        ]
        return [[buffer for part in parts for buffer in part] for parts in zip(*rows, strict=True)]

    def _process_good(self, columns: Columns, stream_of: StreamOf) -> Columns:
        bad: dict[int, Buffer] = {}
        for column in columns:
            for row, buffer in enumerate(column):
                if buffer.error is not None:
                    bad.setdefault(row, buffer)
        if not bad:
            return self._process_batch(columns, stream_of)
        self.passed += len(bad)
        size = len(columns[0])
        good = [row for row in range(size) if row not in bad]
        results: Columns = [[] for _ in self._outputs or ("",)]
        if good:
            results = self._process_batch(
                [[column[row] for row in good] for column in columns],
                lambda row: stream_of(good[row]),
            )
        whole = []
        for place, result in enumerate(results):
            passed = iter(result)
            rows = [bad[row] if row in bad else next(passed) for row in range(size)]
            whole.append([buffer.twin() for buffer in rows] if place else rows)
        self.has_errors = True
        return whole

    def _settle(self, values: list[Any], place: int, columns: Columns) -> list[Buffer]:
        """Wraps the results of a call on one output."""
        sources = columns[0]
        if len(values) != len(sources):
            raise self._miscount(len(values), len(sources), place)
        hands_over = self._hands_over
        if values is sources and self._is_single:
            for buffer in values:  # the unit may have replaced the data, or keep the array
                if type(buffer.data) not in _NO_ARRAYS:
                    freeze(buffer, hands_over)
            return values
        # The fast path takes only a list, and only if no meta is inherited. Iterating over another
        # type may give other values than indexing it: a dict gives its keys.
        if (
            type(values) is list
            and _PLAIN.issuperset(types := {*map(type, values)})
            and not (self._inherits_meta and any(map(_META, chain.from_iterable(columns))))
        ):
            settled = [*map(Buffer, values)]
            for buffer in settled if np.ndarray in types else ():
                freeze(buffer, hands_over)
            return settled
        return self._settle_each(values, place, columns)

    def _settle_each(self, values: list[Any], place: int, columns: Columns) -> list[Buffer]:
        """Wraps results of different types, or with inherited meta."""
        sources = columns[0]
        settled = []
        for row in range(len(values)):
            value = values[row]
            if isinstance(value, _WRAPPED):
                buffer = self._take(value, None if place else sources[row])
            else:
                buffer = Buffer(value)
            if self._inherits_meta and buffer is not sources[row]:
                inherit(buffer, [column[row] for column in columns])
            freeze(buffer, self._hands_over)
            settled.append(buffer)
        return settled

    def _take(self, value: Any, source: Buffer | None) -> Buffer:
        """Returns the buffer of a result.

        Returns a twin of a buffer that the unit made, because the unit may emit that buffer again.
        """
        buffer = self._wrap(value)
        return buffer.twin() if buffer is value and buffer is not source else buffer

    def _check_outputs(self, settled: Columns, stream_of: StreamOf) -> Columns:
        """Puts errors in the place of arrays of another type than their output declares."""
        types = self._output_types
        assert types is not None  # the caller has checked
        for place, column in enumerate(settled):
            wrong = types.wrong_in(place, column)
            if wrong:
                settled[place] = self._with_errors(column, wrong, stream_of)
        return settled

    def _miscount(self, given: int, expected: int, output: int) -> ValueError:
        """Returns the error of a call whose results are too many or too few.

        The call may be for a part of a batch. Then the text also names the counts of the batch.
        """
        first = self._first_miscount = self._first_miscount or (given, expected)
        at = self.spec.location  # the file of a function unit, or of the unit's description
        is_function = at is not None and at.file.endswith(".py")
        place = f" ({at})" if is_function else place_of(self.unit)
        before = f" (and {first[0]} for the batch of {first[1]})" if first[1] > expected else ""
        return ValueError(
            f"gave {_count(given, 'value')} on output {self._outputs[output]!r} for "
            f"{_count(expected, 'input')}{before}; a normal unit gives one for each"
            f"{place}"
        )


_WRAPPED = (Buffer, Exception, CoroutineType)
_META = attrgetter("_meta")
# Types whose values are wrapped directly. Subclasses are excluded: they may also be exceptions.
_NUMBERS = {float, int, bool, np.float32, np.float64, np.int64}
_NO_ARRAYS = frozenset({str, bytes, dict, list, tuple, *_NUMBERS})
_PLAIN = _NO_ARRAYS | {np.ndarray}


def _count(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _shift(stream_of: StreamOf, row: int) -> StreamOf:
    return lambda _: stream_of(row)


KIND = RunningKind(call=NormalCall)
