"""Calls of a flow unit: what goes in is made writable or not, what comes out wrapped and frozen."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import FlowUnitError
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context, FlowUnit
from modelflow.runtime.segment import Columns, Stream

__all__ = ["StreamOf", "UnitCall", "freeze", "returned_error", "writable"]

# Gives the stream that a row of the batch belongs to; None outside a graph.
StreamOf = Callable[[int], Stream | None]


class UnitCall:
    """Calls a unit instance for the batches of one worker, and settles what it gives.

    The subclasses know what the kinds of unit are called with, and what they must give.

    Attributes:
        unit: The instance, opened.
        failed: How many rows of the last call failed in it.
        inputs: The connected input ports, in the order of the columns.
        has_errors: Something that the last call gave is in error, its own or one passed on.
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
        self.has_errors = False
        self.inputs = tuple(inputs)
        self._outputs = tuple(port.name for port in spec.outputs)
        self._consumers = tuple(consumers)
        self._is_single = len(consumers) == 1 and consumers[0] == 1
        self._is_exception_visible = is_exception_visible
        self._inherits_meta = spec.inherits_meta
        self._is_per_stream = spec.is_per_stream
        in_place = {port.name for port in spec.inputs if port.is_in_place}
        self._in_place = tuple(i for i, name in enumerate(self.inputs) if name in in_place)

    def _run(self, context: Context) -> None:
        """Calls ``process``.

        Raises:
            TypeError: it returned something: what is given is emitted.
            Exception: whatever it raised.
        """
        # Typed as returning nothing; authors forget.
        returned: object = self.unit.process(context)  # type: ignore[func-returns-value]
        if returned is not None:
            raise returned_error(returned)

    def begin(self) -> None:
        """Forgets the call before."""
        self.failed = 0
        self.has_errors = False

    def _count_failed(self, rows: int) -> None:
        self.failed += rows
        self.has_errors = True

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit over a batch.

        Args:
            columns: The inputs, a column a port.
            has_errors: Whether a buffer among them may be in error.
            stream_of: Gives the stream of a row.

        Returns:
            A column for each output port, as long as the inputs. A sink gives one column: its first
            input, with errors at the rows that failed.
        """
        raise NotImplementedError

    def produce(self, context: Context) -> Columns:
        """Runs a source once; returns a column for each output port, all of the same length.

        Raises:
            FlowUnitError: the source failed, or its outputs differ in length.
        """
        self.begin()
        try:
            self._run(context)
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

    def _context(self, columns: Columns, stream: Stream | None) -> Context:
        """Makes what the unit is given; ``stream``: all rows are of that one."""
        inputs = dict(zip(self.inputs, columns, strict=True))
        outputs: dict[str, list[Any]] = {name: [] for name in self._outputs}
        if stream is None:
            return Context(inputs, outputs)
        return Context(inputs, outputs, stream.session.context, None, stream.meta)

    def _writable(self, columns: Columns) -> Columns:
        """Gives the columns of the ports that the unit writes to arrays that it may write to."""
        columns = list(columns)
        for index in self._in_place:
            columns[index] = [writable(buffer) for buffer in columns[index]]
        return columns

    def _failures(self, error: Exception, size: int, stream_of: StreamOf) -> list[Buffer]:
        self._count_failed(size)
        return [Buffer.from_error(self._error(error, stream_of(row))) for row in range(size)]

    def _error(self, error: BaseException, stream: Stream | None) -> FlowUnitError:
        session = None if stream is None else stream.session.name
        return FlowUnitError.from_exception(
            error, node=self.node, unit=self.spec.name, session=session
        )

    def _wrapped(self, value: Any) -> Buffer:
        if isinstance(value, Buffer):
            if value.error is not None:
                self.has_errors = True
            return value
        if isinstance(value, Exception):
            self._count_failed(1)
            return Buffer.from_error(self._error(value, None))
        return Buffer(value)

    def _frozen(self, buffer: Buffer) -> Buffer:
        freeze(buffer, self._is_single)
        return buffer


def returned_error(value: object) -> TypeError:
    """Returns the error about a ``process`` that has returned something."""
    message = (
        f"process() returned {type(value).__name__}; expected nothing: give values "
        "with ctx.emit([...])"
    )
    return TypeError(message)


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
