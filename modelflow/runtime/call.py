"""One call of a flow unit: errors kept apart, outputs counted, wrapped and frozen."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context, FlowUnit
from modelflow.runtime.segment import Columns

__all__ = ["UnitCall", "freeze", "writable"]

SessionOf = Callable[[int], str | None]


class UnitCall:
    """Calls a unit instance for the batches of one worker, and settles what it gives.

    Attributes:
        failed: How many rows of the last call failed in it.
    """

    def __init__(
        self,
        unit: FlowUnit,
        spec: FlowUnitSpec,
        node: str,
        *,
        inputs: Sequence[str],
        consumers: Sequence[int],
        is_exception_visible: bool = False,
    ) -> None:
        """Takes what does not change between batches.

        Args:
            unit: The instance, opened.
            spec: Its description.
            node: The node's name, for errors.
            inputs: The connected input ports, in the order of the columns.
            consumers: For each output port of ``spec``, how many inputs it feeds.
            is_exception_visible: Buffers in error are given to the unit.
        """
        self.unit = unit
        self.spec = spec
        self.node = node
        self.failed = 0
        self._inputs = tuple(inputs)
        self._outputs = tuple(port.name for port in spec.outputs)
        self._is_single = len(consumers) == 1 and consumers[0] == 1
        self._is_exception_visible = is_exception_visible
        in_place = {port.name for port in spec.inputs if port.is_in_place}
        self._in_place = tuple(i for i, name in enumerate(self._inputs) if name in in_place)

    def process(self, columns: Columns, has_errors: bool, session_of: SessionOf) -> Columns:
        """Runs a normal unit, or a sink, over a batch.

        Args:
            columns: The inputs, a column a port.
            has_errors: Whether a buffer among them may be in error.
            session_of: Gives the session's name of a row, for errors.

        Returns:
            A column for each output port, as long as the inputs. A sink gives one column: its first
            input, with errors at the rows that failed.
        """
        self.failed = 0
        if has_errors and not self._is_exception_visible:
            return self._process_good(columns, session_of)
        return self._process_batch(columns, session_of)

    def produce(self, context: Context) -> Columns:
        """Runs a source once; returns a column for each output port, all of the same length.

        Raises:
            FlowUnitError: the source failed, or its outputs differ in length.
        """
        self.failed = 0
        try:
            self.unit.process(context)
            lengths = {name: len(context.outputs[name]) for name in self._outputs}
            if len(set(lengths.values())) > 1:
                message = f"gave {lengths} values; a source gives as many on every output"
                raise ValueError(message)
        except Exception as error:
            raise self._error(error, None) from error
        return [
            [self._frozen(self._wrapped(value)) for value in context.outputs[name]]
            for name in self._outputs
        ]

    def _process_batch(self, columns: Columns, session_of: SessionOf) -> Columns:
        if self._in_place and len(columns[0]) > 1:
            # A failing call may have written half of its batch: rows are called one by one.
            return self._process_rows(columns, session_of)
        return self._process_all(columns, session_of)

    def _process_all(self, columns: Columns, session_of: SessionOf) -> Columns:
        if self._in_place:
            columns = list(columns)
            for index in self._in_place:
                columns[index] = [writable(buffer) for buffer in columns[index]]
        size = len(columns[0])
        outputs: dict[str, list[Any]] = {name: [] for name in self._outputs}
        context = Context(dict(zip(self._inputs, columns, strict=True)), outputs)
        try:
            self.unit.process(context)
            if not self._outputs:
                return [columns[0]]
            return [self._settled(outputs[name], name, columns) for name in self._outputs]
        except Exception as error:
            if size > 1 and self.spec.is_batch_retried:
                return self._process_rows(columns, session_of)
            return self._failed(error, size, session_of)

    def _process_rows(self, columns: Columns, session_of: SessionOf) -> Columns:
        self.failed = 0
        rows = [
            self._process_all([[column[row]] for column in columns], _shifted(session_of, row))
            for row in range(len(columns[0]))
        ]
        return [[buffer for part in parts for buffer in part] for parts in zip(*rows, strict=True)]

    def _process_good(self, columns: Columns, session_of: SessionOf) -> Columns:
        bad: dict[int, Buffer] = {}
        for column in columns:
            for row, buffer in enumerate(column):
                if buffer.error is not None:
                    bad.setdefault(row, buffer)
        if not bad:
            return self._process_batch(columns, session_of)
        size = len(columns[0])
        good = [row for row in range(size) if row not in bad]
        results: Columns = [[] for _ in self._outputs or ("",)]
        if good:
            results = self._process_batch(
                [[column[row] for row in good] for column in columns],
                lambda row: session_of(good[row]),
            )
        whole = []
        for result in results:
            passed = iter(result)
            whole.append([bad[row] if row in bad else next(passed) for row in range(size)])
        return whole

    def _failed(self, error: Exception, size: int, session_of: SessionOf) -> Columns:
        self.failed += size
        buffers = [Buffer.from_error(self._error(error, session_of(row))) for row in range(size)]
        return [list(buffers) for _ in self._outputs or ("",)]

    def _error(self, error: BaseException, session: str | None) -> FlowUnitError:
        return FlowUnitError.from_exception(
            error, node=self.node, unit=self.spec.name, session=session
        )

    def _settled(self, values: list[Any], port: str, columns: Columns) -> list[Buffer]:
        sources = columns[0]
        if len(values) != len(sources):
            message = (
                f"gave {len(values)} values on output {port!r} for {len(sources)} inputs; "
                "a normal unit gives one for each"
            )
            raise ValueError(message)
        if values is sources and self._is_single:
            return values
        settled = []
        for row, value in enumerate(values):
            buffer = self._wrapped(value)
            if buffer is not sources[row]:
                for column in columns:
                    buffer.inherit_meta(column[row])
            settled.append(self._frozen(buffer))
        return settled

    def _wrapped(self, value: Any) -> Buffer:
        if isinstance(value, Buffer):
            return value
        if isinstance(value, Exception):
            self.failed += 1
            return Buffer.from_error(self._error(value, None))
        return Buffer(value)

    def _frozen(self, buffer: Buffer) -> Buffer:
        freeze(buffer, self._is_single)
        return buffer


def freeze(buffer: Buffer, is_single: bool) -> None:
    """Makes the buffer's array read-only; notes whether its next consumer is the only one."""
    data = buffer.data
    if type(data) is np.ndarray:
        if data.flags.writeable:
            data.flags.writeable = False
            buffer._is_exclusive = is_single
        elif not is_single:
            buffer._is_exclusive = False


def writable(buffer: Buffer) -> Buffer:
    """Gives a buffer whose array may be written: the same where nobody else sees it, or a copy."""
    data = buffer.data
    if type(data) is not np.ndarray or data.flags.writeable:
        return buffer
    # Three references: the buffer's, ours, and that of the call itself. More: somebody keeps it.
    if buffer._is_exclusive and sys.getrefcount(data) <= 3:
        data.flags.writeable = True
        return buffer
    copied = Buffer(data.copy())
    copied.inherit_meta(buffer)
    return copied


def _shifted(session_of: SessionOf, row: int) -> SessionOf:
    return lambda _: session_of(row)
