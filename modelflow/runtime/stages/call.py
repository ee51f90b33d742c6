"""Calls of a flow unit: checks and prepares the inputs, wraps and freezes the outputs.

Example of types: the output "out" declares ``uint8``, and the unit emits a float64 array for the
second of three rows. Then `PortTypes.wrong_in` returns
``[(1, ValueError("out: got a float64 array; expected uint8"))]``.

Example of results: the input is ``Buffer(a, meta {"path": "x.jpg"})``.

- The unit emits the array ``b``: the result is ``Buffer(b, meta {"path": "x.jpg"})``. From then on
  ``b`` is read-only.
- The unit raises: the result is ``Buffer(error=FlowUnitError(node, unit, session, text))``.
"""

import re
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from types import CoroutineType
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.errors import BadRequest, EndFlow, FlowUnitError, below_here, is_users
from modelflow.plan import UnitPlan
from modelflow.runtime.session.segment import Columns, Stream
from modelflow.runtime.stages.sharing import freeze, writable
from modelflow.unit.port import Port
from modelflow.unit.unit import Context, FlowUnit


class PortTypes:
    """The array types that the inputs, or the outputs, of a unit declare."""

    @classmethod
    def of(cls, ports: Sequence[Port], names: Sequence[str]) -> "PortTypes | None":
        """Returns the declared types of the ports, or None if no port declares a type.

        Args:
            ports: The unit's ports.
            names: The names of the connected ports, in the order of the columns.
        """
        found = {port.name: port.tensor.dtype for port in ports if port.tensor is not None}
        return cls([(n, found[n]) if n in found else None for n in names]) if found else None

    def __init__(self, types: "list[tuple[str, np.dtype[Any]] | None]") -> None:
        """Stores the types.

        Args:
            types: Name and type of each connected port. None for a port that takes any type.
        """
        self._types = types

    def check(self, columns: Sequence[Sequence[Any]]) -> None:
        """Checks all columns of one call.

        Args:
            columns: The values of each connected port, as buffers or plain.

        Raises:
            ValueError: an array has another type than its port declares.
        """
        for place, values in enumerate(columns):
            buffers = [value if isinstance(value, Buffer) else Buffer(value) for value in values]
            for _, error in self.wrong_in(place, buffers):
                raise error

    def wrong_in(self, place: int, column: Sequence[Buffer]) -> Sequence[tuple[int, ValueError]]:
        """Returns the rows whose arrays have another type than declared, each with its error.

        Args:
            place: The column's place among the connected ports.
            column: The buffers; a buffer without an array is not checked.
        """
        declared = self._types[place]
        if declared is None:
            return ()
        wrong: list[tuple[int, ValueError]] = []
        name, dtype = declared
        for row, buffer in enumerate(column):
            data = buffer.data
            if type(data) is np.ndarray and data.dtype != dtype:
                error = ValueError(f"{name}: got a {data.dtype} array; expected {dtype}")
                wrong.append((row, error))
        return wrong


# The messages of NumPy and OpenCV: "assignment destination is read-only", "array marked as
# readonly".
_READ_ONLY = re.compile("(array|destination) is read-only|array marked as readonly")

WAIT = "wait"
"""The phase of the error of a row for which the unit was never called."""

# Returns the stream that a row of the batch belongs to; None outside a graph.
StreamOf = Callable[[int], Stream | None]


class Call:
    """The part of a call that a worker uses, for a single unit as for a chain."""

    plan: UnitPlan
    """The unit that is called; in a chain the unit that runs now, or ran last."""
    failed: int
    """The number of rows of the last call that failed in the unit."""
    passed: int = 0
    """The number of rows in error that passed by the unit, until the worker has counted them."""
    has_errors: bool
    """True if a result of the last call is in error, new or passed on."""


class UnitCall(Call):
    """The steps around a call that all kinds share: contexts, wrapping, errors.

    A subclass (see `modelflow.runtime.kinds`) defines the inputs of one kind of unit, and checks
    its outputs.
    """

    unit: FlowUnit
    """The opened instance."""
    inputs: tuple[str, ...]
    """The connected input ports, in the order of the columns."""

    def __init__(self, unit: FlowUnit, plan: UnitPlan) -> None:
        """Stores the values that do not change between batches.

        Args:
            unit: The opened instance.
            plan: The unit's plan.
        """
        self.unit = unit
        self.plan = plan
        self.failed = 0
        self.has_errors = False
        self.inputs = plan.inputs
        self.spec = spec = plan.spec
        self._refusals = (BadRequest, spec.refuses_with)
        self._outputs = spec.output_names
        self._is_one_to_one = len(self.inputs) == len(self._outputs) == 1
        self._is_single = plan.consumers == (1,)
        self._hands_over = spec.hands_over_arrays and self._is_single
        self._is_exception_visible = plan.is_exception_visible
        self._inherits_meta = spec.inherits_meta
        self._is_per_stream = spec.kind.is_per_stream
        self._is_telling = unit.is_telling
        in_place = {port.name for port in spec.inputs if port.is_in_place}
        self._in_place = tuple(i for i, name in enumerate(self.inputs) if name in in_place)
        is_checked = spec.is_type_checked
        self._input_types = PortTypes.of(spec.inputs if is_checked else (), self.inputs)
        self._output_types = PortTypes.of(spec.outputs if is_checked else (), self._outputs)

    def _run(self, context: Context) -> None:
        """Calls ``process``.

        Raises:
            TypeError: ``process`` returned a value instead of emitting it.
            BaseException: the error that ``process`` raised.
        """
        # ``process`` is typed to return nothing, but authors forget that.
        returned: object = self.unit.process(context)  # type: ignore[func-returns-value]
        if returned is not None:
            raise make_return_error(self.unit, returned)

    def begin(self) -> None:
        """Resets the counters before a call."""
        self.failed = 0
        self.has_errors = False

    def _count_failed(self, rows: int) -> None:
        self.failed += rows
        self.has_errors = True

    def _context(self, columns: Columns, stream: Stream | None) -> Context:
        """Returns the context of a call; ``stream`` if all rows belong to one stream, else None."""
        inputs = dict(zip(self.inputs, columns, strict=True))
        outputs: dict[str, list[Any]] = {name: [] for name in self._outputs}
        if stream is None:
            return Context(inputs, outputs)
        return Context(inputs, outputs, stream.session.context, None, stream.meta)

    def _check_inputs(self, columns: Columns, stream_of: StreamOf) -> tuple[Columns, bool]:
        """Replaces inputs of another type than declared by errors.

        Returns:
            The columns, and True if an input was replaced.
        """
        types = self._input_types
        assert types is not None  # the caller has checked
        found = columns
        for place, column in enumerate(columns):
            wrong = types.wrong_in(place, column)
            if wrong:
                found = [*found]
                found[place] = self._with_errors(column, wrong, stream_of, is_refusal=True)
        return found, found is not columns

    def _with_errors(
        self,
        column: list[Buffer],
        wrong: Iterable[tuple[int, BaseException]],
        stream_of: StreamOf,
        *,
        is_refusal: bool = False,
    ) -> list[Buffer]:
        """Returns a copy of the column with an error in the place of each wrong row."""
        found = list(column)
        for row, error in wrong:
            bad = Buffer.from_error(self._error(error, stream_of(row), is_refusal=is_refusal))
            bad.inherit_meta(column[row])
            found[row] = bad
            self._count_failed(1)
        return found

    def _writable(self, columns: Columns) -> Columns:
        """Returns the columns, with writable arrays for the ports that the unit writes to."""
        columns = list(columns)
        for index in self._in_place:
            columns[index] = [writable(buffer) for buffer in columns[index]]
        return columns

    def _failures(
        self, error: BaseException, size: int, columns: Columns, stream_of: StreamOf
    ) -> list[Buffer]:
        """Returns a buffer in error for each row, with the meta of the row's inputs."""
        self._count_failed(size)
        failures = []
        for row in range(size):
            bad = Buffer.from_error(self._error(error, stream_of(row)))
            for column in columns:
                if row < len(column):  # the unit may have emptied its list
                    bad.inherit_meta(column[row])
            failures.append(bad)
        return failures

    def _error(
        self, error: BaseException, stream: Stream | None, *, is_refusal: bool = False
    ) -> FlowUnitError:
        claim(error)
        session = None if stream is None else stream.session.name
        found = FlowUnitError.from_exception(
            error,
            node=self.plan.node,
            unit=self.spec.name,
            session=session,
            is_refusal=is_refusal or isinstance(error, self._refusals),
        )
        if _READ_ONLY.search(found.message):
            found.message += "; inputs are read-only: copy it, or declare the port is_in_place"
        return found

    def _wrap(self, value: Any) -> Buffer:
        if isinstance(value, Buffer):
            if value.error is not None:
                self.has_errors = True
            return value
        if type(value) is CoroutineType:
            value = coroutine_error(value)
        if isinstance(value, Exception):
            self._count_failed(1)
            return Buffer.from_error(self._error(value, None))
        return Buffer(value)

    def _wrap_output(self, values: Sequence[Any]) -> list[Buffer]:
        """Wraps and freezes the values that a unit emitted on one output."""
        given = []
        for value in values:
            buffer = self._wrap(value)
            # A twin, because a unit may keep a buffer and emit it again.
            given.append(self._frozen(buffer.twin() if buffer is value else buffer))
        return given

    def _everywhere(self, column: list[Buffer]) -> Columns:
        """Returns a column for each output, at least a single column, with the same items."""
        more = len(self._outputs) - 1
        return [column] + [[buffer.twin() for buffer in column] for _ in range(more)]

    def _frozen(self, buffer: Buffer) -> Buffer:
        freeze(buffer, self._hands_over)
        return buffer


class BatchCall(Call):
    """A call for the rows of a batch, for all kinds but streams and sources, and for chains."""

    def process(self, columns: Columns, has_errors: bool, stream_of: StreamOf) -> Columns:
        """Runs the unit over a batch.

        Args:
            columns: The inputs, a column for each port.
            has_errors: True if an input may be in error.
            stream_of: Returns the stream of a row.

        Returns:
            A column for each output port, as long as the inputs. For a sink, one column: its first
            input, with errors at the rows that failed.
        """
        raise NotImplementedError


def claim(error: BaseException) -> None:
    """Accepts an exception of a unit, even a `SystemExit`, as the error of the unit's buffers.

    Clears the local variables of the traceback's frames. Otherwise a stored error would keep the
    whole batch in memory.

    Raises:
        EndFlow: the unit wants the flow to end.
        KeyboardInterrupt: the user pressed Ctrl-C. Python raises it on the main thread only, where
            units run if the flow is inline (``threads=0``). On another thread the unit raised it.
    """
    is_on_main = threading.current_thread() is threading.main_thread()
    if isinstance(error, EndFlow) or (isinstance(error, KeyboardInterrupt) and is_on_main):
        raise error
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def make_return_error(unit: FlowUnit, value: object) -> TypeError:
    """Returns the error for a ``process`` that returned a value."""
    if type(value) is CoroutineType:
        return coroutine_error(value)
    message = (
        f"process() returned {type(value).__name__}; expected nothing: give values "
        f"with ctx.emit([...]){place_of(unit)}"
    )
    return TypeError(message)


def coroutine_error(coroutine: "CoroutineType[Any, Any, Any]") -> TypeError:
    """Returns the error for a coroutine that a unit returned or emitted; closes the coroutine."""
    code = coroutine.cr_code
    coroutine.close()  # else Python warns that the coroutine was never awaited
    message = (
        f"got a coroutine of 'async def {code.co_name}' ({below_here(code.co_filename)}:"
        f"{code.co_firstlineno}); expected a value: modelflow does not await coroutines; call "
        "asyncio.run(...) in the unit"
    )
    return TypeError(message)


def place_of(unit: FlowUnit) -> str:
    """Returns the file and line of a unit's ``process``, as `` (units/net/net.py:7)``.

    Returns "" if the code is not the user's.
    """
    code = getattr(type(unit).process, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return ""
    return f" ({below_here(code.co_filename)}:{code.co_firstlineno})"
