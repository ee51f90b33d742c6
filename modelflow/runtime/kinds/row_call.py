"""What condition, expand, collapse and loop have in common: a call for each row."""

from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.runtime.session.segment import Columns, Stream
from modelflow.runtime.stages.call import BatchCall, StreamOf, UnitCall
from modelflow.runtime.stages.inheriting import inherit


class RowCall(UnitCall, BatchCall):
    """Calls a unit row by row. A *cell* is what a row has in one column, in or out."""

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit over the rows of a batch, one after the other; see `BatchCall.process`."""
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

    # -- what a kind says -----------------------------------------------------------------------

    def _first_error(self, cells: Sequence[Any]) -> Buffer | None:
        """Returns the buffer in error because of which the unit is not called, or None."""
        return next((cell for cell in cells if cell.error is not None), None)

    def _inputs_of(self, cell: Any) -> list[Buffer]:
        """Returns what the unit is given on one port."""
        return [cell]

    def _settle(self, values: list[list[Any]], sources: Columns) -> list[Any]:
        """Checks what the unit gave on each output, and makes the row's cells of it.

        Raises:
            ValueError: it gave what its kind must not.
        """
        raise NotImplementedError

    def _fail(self, bad: Buffer) -> list[Any]:
        """Returns the cells of a row that is in error."""
        raise NotImplementedError

    def _inheriting(self, value: Any, sources: Columns) -> Buffer:
        buffer = self._wrap(value)
        if buffer is value and not any(source is buffer for (source,) in sources):
            buffer = buffer.twin()  # the unit may keep its own, and give it again
        if self._inherits_meta and any(source is not buffer for (source,) in sources):
            inherit(buffer, [source for (source,) in sources])
        return self._frozen(buffer)
