"""One call of a flow unit: errors kept apart, outputs counted, wrapped and frozen."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context, FlowUnit

__all__ = ["Columns", "UnitCall", "freeze", "writable"]

# One list of buffers a port, all of the same length: row i is what belongs together.
Columns = list[list[Buffer]]


class UnitCall:
    """Calls one unit instance for the batches of a node and settles what it returns.

    Used by one worker at a time (by several where the unit is shared: it keeps no state).
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
        self._inputs = tuple(inputs)
        self._outputs = tuple(port.name for port in spec.outputs)
        self._is_single = tuple(count == 1 for count in consumers)
        self._is_exception_visible = is_exception_visible
        in_place = {port.name for port in spec.inputs if port.is_in_place}
        self._in_place = tuple(i for i, name in enumerate(self._inputs) if name in in_place)

    def process(
        self, columns: Columns, has_errors: bool, session_of: Callable[[int], str | None]
    ) -> Columns:
        """Runs a normal unit, or a sink, over a batch.

        Args:
            columns: The inputs, a column a port.
            has_errors: Whether a buffer among them may be in error.
            session_of: Gives the session's name of a row, for errors.

        Returns:
            A column for each output port. A sink gives none, or a single column that holds the
            buffers in error alone.
        """
        if has_errors and not self._is_exception_visible:
            return self._process_good(columns, session_of)
        if self._in_place and len(columns[0]) > 1:
            # A failing call may have written half of its batch: rows are called one by one.
            return self._process_rows(columns, session_of)
        return self._process_all(columns, session_of)

    def _process_all(self, columns: Columns, session_of: Callable[[int], str | None]) -> Columns:
        for index in self._in_place:
            columns[index] = [writable(buffer) for buffer in columns[index]]
        size = len(columns[0])
        context = Context(
            dict(zip(self._inputs, columns, strict=True)), {name: [] for name in self._outputs}
        )
        try:
            self.unit.process(context)
            return [
                self._settled(context.outputs[name], name, columns, single)
                for name, single in zip(self._outputs, self._is_single, strict=True)
            ]
        except Exception as error:
            if size > 1 and self.spec.is_batch_retried:
                return self._process_rows(columns, session_of)
            return self._failed(error, size, session_of)

    def _process_rows(self, columns: Columns, session_of: Callable[[int], str | None]) -> Columns:
        rows = [
            self._process_all([[column[i]] for column in columns], lambda _, i=i: session_of(i))  # type: ignore[misc]
            for i in range(len(columns[0]))
        ]
        if not self._outputs:
            return [[buffer for row in rows for column in row for buffer in column]]
        return [[buffer for part in parts for buffer in part] for parts in zip(*rows, strict=True)]

    def _process_good(self, columns: Columns, session_of: Callable[[int], str | None]) -> Columns:
        failed: dict[int, Buffer] = {}
        for column in columns:
            for i, buffer in enumerate(column):
                if buffer.error is not None:
                    failed.setdefault(i, buffer)
        good = [i for i in range(len(columns[0])) if i not in failed]
        results: Columns = [[] for _ in self._outputs]
        if good:
            results = self.process(
                [[column[i] for i in good] for column in columns],
                False,
                lambda i: session_of(good[i]),
            )
        if not self._outputs:
            return [[*failed.values(), *(buffer for result in results for buffer in result)]]
        whole = []
        for result in results:
            passed = iter(result)
            whole.append(
                [failed[i] if i in failed else next(passed) for i in range(len(columns[0]))]
            )
        return whole

    def _failed(
        self, error: Exception, size: int, session_of: Callable[[int], str | None]
    ) -> Columns:
        buffers = [Buffer.from_error(self._error(error, session_of(i))) for i in range(size)]
        return [list(buffers) for _ in self._outputs] or [buffers]

    def _error(self, error: BaseException, session: str | None) -> FlowUnitError:
        return FlowUnitError.from_exception(
            error, node=self.node, unit=self.spec.name, session=session
        )

    def _settled(
        self, values: list[Any], port: str, columns: Columns, is_single: bool
    ) -> list[Buffer]:
        sources = columns[0]
        if len(values) != len(sources):
            message = (
                f"gave {len(values)} values on output {port!r} for {len(sources)} inputs; "
                "a normal unit gives one for each"
            )
            raise ValueError(message)
        if values is sources and is_single:
            return values
        settled = []
        for row, value in enumerate(values):
            source = sources[row]
            buffer = value if isinstance(value, Buffer) else self._wrapped(value)
            if buffer is not source:
                for column in columns:
                    buffer.inherit_meta(column[row])
            freeze(buffer, is_single)
            settled.append(buffer)
        return settled

    def _wrapped(self, value: Any) -> Buffer:
        if isinstance(value, Exception):
            return Buffer.from_error(self._error(value, None))
        return Buffer(value)


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
    if buffer._is_exclusive:
        data.flags.writeable = True
        return buffer
    copied = Buffer(data.copy())
    copied.inherit_meta(buffer)
    return copied
