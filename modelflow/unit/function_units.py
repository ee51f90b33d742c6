"""Units that call a decorated function: one class for each form of calls."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import below_here, did_you_mean
from modelflow.unit.context import Context
from modelflow.unit.kind import Collapse, Condition, Expand, Kind, Loop, Normal, Source
from modelflow.unit.signature import Signature
from modelflow.unit.unit import FlowUnit

# A source function gives at most this many values in one call of its unit. The call ends earlier
# after this many seconds, because a camera's frame must not wait for the next frames.
_SOURCE_CHUNK = 8
_SOURCE_PATIENCE = 0.001
_DATA = attrgetter("data")


class FunctionUnit(FlowUnit):
    """A unit that calls a function for each buffer, or for each batch."""

    is_any_thread = True

    compute_column: Callable[[list[Buffer]], list[Any]] | None = None
    """Returns the values of the only output for the buffers of the only input, without a context.

    None if the function has more or fewer of these.
    """

    def __init__(self, signature: Signature) -> None:
        """Takes the function with its signature."""
        self._signature = signature
        self._function = signature.function
        self._items: Iterator[Any] | None = None
        if len(signature.inputs) == len(signature.outputs) == 1:
            is_batched = signature.is_batched
            self.compute_column = self._compute_batch if is_batched else self._compute_rows

    def open(self, config: Mapping[str, Any]) -> None:
        """Keeps the options for the calls of the function."""
        if config:
            self._function = partial(self._signature.function, **config)

    def process(self, ctx: Context) -> None:
        """Calls the function for each row, for the batch, or as a source."""
        if self.compute_column is not None:
            (column,), (given,) = ctx.inputs.values(), ctx.outputs.values()
            given.extend(self.compute_column(column))
        elif not self._signature.inputs:
            self._produce(ctx)
        elif self._signature.is_batched:
            self._process_batch(ctx)
        else:
            self._process_each(ctx)

    def close(self) -> None:
        """Closes the generator of a source."""
        close = getattr(self._items, "close", None)
        if close is not None:
            close()  # runs the clean-up code of a generator

    def _process_each(self, ctx: Context) -> None:
        signature = self._signature
        for values in zip(*self._columns(ctx), strict=True):
            try:
                answer = self._function(*values)
                given = self._by_output(answer)
            except Exception as error:
                if not signature.outputs:
                    raise  # the runtime then tries the batch row by row, to find the failing row
                given = dict.fromkeys(signature.outputs, error)
            for name, value in given.items():
                ctx.outputs[name].append(value)

    def _compute_rows(self, column: list[Buffer]) -> list[Any]:
        """Returns the value of each row, or its exception; see `compute_column`."""
        function, (wants,) = self._function, self._signature.takes_buffers
        values = []
        for buffer in column:
            try:
                answer = function(buffer if wants else buffer.data)
                if answer is None:
                    self._by_output(answer)  # raises
            except Exception as error:  # noqa: BLE001 - the error of this row only
                answer = error
            values.append(answer)
        return values

    def _compute_batch(self, column: list[Buffer]) -> list[Any]:
        """Returns the values of a batch; see `compute_column`."""
        (wants,) = self._signature.takes_buffers
        answer = self._function([*column] if wants else [*map(_DATA, column)])
        return answer if type(answer) is list else self._lists_of(answer)[0]

    def _process_batch(self, ctx: Context) -> None:
        answer = self._function(*self._columns(ctx))
        for name, values in zip(self._signature.outputs, self._lists_of(answer), strict=True):
            ctx.outputs[name].extend(values)

    def _lists_of(self, answer: Any) -> list[list[Any]]:
        """Returns the values of each output of a batched function."""
        by_output = self._by_output(answer)
        for name, values in by_output.items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                raise TypeError(
                    f"{self._signature.name}() gave {type(values).__name__} for output "
                    f"{name!r}; a batched function gives a list"
                )
        return [list(by_output[name]) for name in self._signature.outputs]

    def _produce(self, ctx: Context) -> None:
        start = time.monotonic()
        for count in range(_SOURCE_CHUNK):
            try:
                given = self._by_output(next(self._stream()))
            except StopIteration:
                ctx.finish()
                return
            except Exception as error:
                if not count:
                    raise
                # The values before the error are sent first; a generator that raised has no more
                # values.
                given = dict.fromkeys(self._signature.outputs, error)
                ctx.finish()
            for name, item in given.items():
                ctx.outputs[name].append(item)
            if ctx.is_finished or time.monotonic() - start > _SOURCE_PATIENCE:
                return

    def _stream(self) -> Iterator[Any]:
        if self._items is None:
            found = self._function()
            if not isinstance(found, Iterable):
                raise TypeError(
                    f"{self._signature.name}() returned {type(found).__name__}; a "
                    "function without inputs is a source: it yields its values, or returns a list"
                )
            self._items = iter(found)
        return self._items

    def _columns(self, ctx: Context) -> list[list[Any]]:
        return [
            list(ctx.inputs[name]) if wants else [buffer.data for buffer in ctx.inputs[name]]
            for name, wants in zip(
                self._signature.inputs, self._signature.takes_buffers, strict=True
            )
        ]

    def _by_output(self, answer: Any) -> dict[str, Any]:
        outputs = self._signature.outputs
        if not outputs:
            return {}
        if answer is None:
            expected = f"output {outputs[0]!r}" if len(outputs) == 1 else f"the outputs {outputs}"
            raise TypeError(
                f"{self._name()} returned None; expected a value for {expected} (no return?)"
            )
        if len(outputs) == 1:
            return {outputs[0]: answer}
        if isinstance(answer, Mapping) and set(answer) == set(outputs):
            return dict(answer)
        if isinstance(answer, tuple) and len(answer) == len(outputs):
            return dict(zip(outputs, answer, strict=True))
        raise TypeError(
            f"{self._name()} returned {_check_returned(answer, outputs)}; expected a tuple of "
            f"{len(outputs)} values, or a mapping, for the outputs {outputs}"
        )

    def _name(self) -> str:
        """Returns the name of the function, with its file and line."""
        code = getattr(self._signature.function, "__code__", None)
        place = "" if code is None else f" ({below_here(code.co_filename)}:{code.co_firstlineno})"
        return f"{self._signature.name}(){place}"


def _check_returned(answer: Any, outputs: Sequence[str]) -> str:
    """Returns the problem of a return value for several outputs."""
    if isinstance(answer, tuple):
        return f"a tuple of {len(answer)}"
    if not isinstance(answer, Mapping):
        return type(answer).__name__
    missing = ", ".join(repr(name) for name in outputs if name not in answer)
    more = [str(key) for key in answer if key not in outputs]
    parts = [f"without {missing}"] if missing else []
    parts += [f"with {key!r}, which is no output{did_you_mean(key, outputs)}" for key in more[:3]]
    return f"a mapping {' and '.join(parts)}"


class ConditionFunction(FunctionUnit):
    """A unit that calls a function that names an output: a condition, or a loop."""

    def process(self, ctx: Context) -> None:
        """Sends the input, or the returned value, to the named output."""
        signature = self._signature
        answer = self._function(*(column[0] for column in self._columns(ctx)))
        if isinstance(answer, str) and answer in signature.outputs:
            ctx.outputs[answer].append(ctx.inputs[signature.inputs[0]][0])
        elif isinstance(answer, Mapping) and len(answer) == 1 and set(answer) <= set(ctx.outputs):
            ((output, value),) = answer.items()
            ctx.outputs[output].append(value)
        else:
            raise TypeError(
                f"{signature.name}() returned {answer!r:.80}; expected the name of an output, or "
                f"{{output: value}} (outputs: {', '.join(signature.outputs)})"
            )


class ExpandFunction(FunctionUnit):
    """A unit that calls a function for the values of a sub-stream."""

    def process(self, ctx: Context) -> None:
        """Emits the values of the sub-stream of one row."""
        signature = self._signature
        answer = self._function(*(column[0] for column in self._columns(ctx)))
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            raise TypeError(
                f"{signature.name}() gave {type(answer).__name__}; an expand function gives a list "
                "of values, or yields them"
            )
        for item in answer:
            for name, value in self._by_output(item).items():
                ctx.outputs[name].append(value)


class CollapseFunction(FunctionUnit):
    """A unit that calls a function for one value from the lists of a sub-stream."""

    def process(self, ctx: Context) -> None:
        """Emits the value for one sub-stream."""
        answer = self._function(*self._columns(ctx))
        for name, value in self._by_output(answer).items():
            ctx.outputs[name].append(value)


# Kind of the decorator -> the class of its units.
FUNCTION_UNITS: Mapping[type[Kind], type[FunctionUnit]] = {
    Normal: FunctionUnit,
    Source: FunctionUnit,
    Condition: ConditionFunction,
    Expand: ExpandFunction,
    Collapse: CollapseFunction,
    Loop: ConditionFunction,
}
