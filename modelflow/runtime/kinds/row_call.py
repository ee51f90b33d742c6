"""The calls of condition, expand, collapse and loop units: a call for each row."""

from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Columns, Stream
from modelflow.runtime.stages.call import BatchCall, StreamOf, UnitCall
from modelflow.runtime.stages.inheriting import inherit


class RowCall(UnitCall, BatchCall):
    """The call of a unit row by row.

    A *cell* is the value of a row in an input column or a result column.
    """

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit over a batch, row by row; see `BatchCall.process`."""
        self.begin()
        results: Columns = [[] for _ in self._outputs or ("",)]
        for row, cells in enumerate(zip(*columns, strict=True)):
            bad = None
            if has_errors and not self._is_exception_visible:
                bad = self._first_error(cells)
            if bad is None:
                given = self._call_unit(cells, stream_of(row))
            else:
                self.has_errors = True
                self.passed += 1
                given = self._fail(bad)
            for column, cell in zip(results, given, strict=True):
                column.append(cell)
        return results

    def _call_unit(self, cells: Sequence[Any], stream: Stream | None) -> list[Any]:
        try:
            columns = [self._inputs_of(cell) for cell in cells]
            if self._in_place:
                columns = self._writable(columns)
            if self._input_types is not None and not self._is_exception_visible:
                self._input_types.check(columns)
            context = self._context(columns, stream)
            self._run(context)
            given = [context.outputs[name] for name in self._outputs]
            if self._output_types is not None:
                self._output_types.check(given)
            return self._settle(given, columns)
        except BaseException as error:
            self._count_failed(1)
            bad = Buffer.from_error(self._error(error, stream))
            for cell in cells:
                for source in cell[:1] if isinstance(cell, list) else (cell,):
                    bad.inherit_meta(source)
            return self._fail(bad)

    # -- defined by the kinds -------------------------------------------------------------------

    def _first_error(self, cells: Sequence[Any]) -> Buffer | None:
        """Returns the buffer whose error prevents the call of the unit, or None."""
        return next((cell for cell in cells if cell.error is not None), None)

    def _inputs_of(self, cell: Any) -> list[Buffer]:
        """Returns the input buffers of one port."""
        return [cell]

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        """Checks the values that the unit emitted on each output, and returns the row's cells.

        Raises:
            ValueError: the numbers of values do not fit the kind of unit.
        """
        raise NotImplementedError

    def _fail(self, bad: Buffer) -> list[Any]:
        """Returns the cells of a row that is in error."""
        raise NotImplementedError

    def _inheriting(self, value: Any, sources: Columns) -> Buffer:
        buffer = self._wrap(value)
        if buffer is value and not any(source is buffer for (source,) in sources):
            buffer = buffer.twin()  # because the unit may emit its own buffer again
        if self._inherits_meta and any(source is not buffer for (source,) in sources):
            inherit(buffer, [source for (source,) in sources])
        return self._frozen(buffer)
