"""The decorator: an ordinary function becomes a flow unit, and stays an ordinary function."""

import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from modelflow.errors import ConfigError, did_you_mean
from modelflow.unit.kind import Kind
from modelflow.unit.signature import Signature, read_signature
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

__all__ = ["FlowUnitFunction", "declared_specs", "flowunit"]

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer", covariant=True)


class FlowUnitFunction(Protocol[Parameters, Answer]):
    """A decorated function: itself, with its description as a flow unit."""

    SPEC: FlowUnitSpec

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        """Calls the function itself."""


# Name -> its units, each with its module and file: which of several is meant is for the look-up.
_declared: dict[str, list[tuple[str, str, FlowUnitSpec]]] = {}
_lock = threading.Lock()
# A source function gives at most this many values in one call of its unit, and stops sooner where
# one took longer than this many seconds: a camera's frame does not wait for the next ones.
_SOURCE_CHUNK = 8
_SOURCE_PATIENCE = 0.001


@overload
def flowunit(
    function: Callable[Parameters, Answer],
) -> FlowUnitFunction[Parameters, Answer]: ...
@overload
def flowunit(
    function: None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("out",),
    device: str = "cpu",
    kind: str = "normal",
    batched: bool = False,
    **more: Any,
) -> Callable[[Callable[Parameters, Answer]], FlowUnitFunction[Parameters, Answer]]: ...
def flowunit(  # noqa: PLR0913 - each is a word of the author's
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("out",),
    device: str = "cpu",
    kind: str = "normal",
    batched: bool = False,
    **more: Any,
) -> Any:
    """Makes a function a flow unit; the function itself is unchanged.

    Positional parameters are the inputs; keyword-only ones are the options, with the types and
    defaults of the signature and the help of the docstring. The function gets the *data* of one
    buffer for each input (the `Buffer` itself where the parameter is annotated so) and returns the
    data of its output. A function without inputs is a source: what it yields is the stream. One
    with ``outputs=()`` is a sink.

    What it returns depends on ``kind``:

    - ``normal``: the value of its output.
    - ``condition``, ``loop``: the name of the output by which its (first) input leaves, or
      ``{output: value}`` where another value leaves.
    - ``expand``: the values of the sub-stream, as a list, or yielded.
    - ``collapse``: the value for a whole sub-stream; its parameters are lists.

    Args:
        function: The function, where the decorator is used without parentheses.
        name: The unit's name; None: the function's.
        inputs: The names of the ports; None: the names of the positional parameters.
        outputs: The names of the outputs. With several, the function returns a tuple in this order,
            or a mapping.
        device: The device kind.
        kind: The kind of unit; a stream unit keeps state, and is written as a class.
        batched: The function takes lists and returns lists of the same length.
        more: Further fields of `FlowUnitSpec`: ``batch_size``, ``threads``, ``group``, ``aliases``.

    Returns:
        The function, with its description as ``function.SPEC``.

    Raises:
        ConfigError: the function's signature does not fit.
    """
    if function is None:
        return lambda found: flowunit(
            found,
            name=name,
            inputs=inputs,
            outputs=outputs,
            device=device,
            kind=kind,
            batched=batched,
            **more,
        )
    signature = read_signature(function, inputs, outputs, batched)
    make = _unit_type(signature, kind)
    spec = FlowUnitSpec(
        name=name or signature.name,
        devices={device: _Factory(function, make, signature)},
        kind=Kind(kind),
        inputs=signature.input_ports(),
        outputs=signature.output_ports(),
        options=signature.options,
        description=more.pop("description", None) or signature.description,
        location=signature.location,
        group=more.pop("group", "Functions"),
        **more,
    )
    function.SPEC = spec  # type: ignore[attr-defined]
    _declare(function, spec)
    return function


def _unit_type(signature: Signature, kind: str) -> "type[_FunctionUnit]":
    """Returns the class that calls a function of this kind."""
    found = _UNITS.get(kind)
    yields = inspect.isgeneratorfunction(signature.function)
    if yields and signature.inputs and found not in (None, _ExpandFunction):
        problem = f"yields, and is of the kind {kind!r}; expected a return, or kind='expand'"
    elif found is _ConditionFunction and len(signature.outputs) < 2:
        problem = (
            f"has {len(signature.outputs)} outputs; a {kind} has at least two: "
            "outputs=('one', 'other')"
        )
    elif found is not None and (kind == "normal" or not signature.is_batched):
        return found
    elif kind == "stream":
        problem = "a stream unit keeps state: write it as a class (modelflow.FlowUnit)"
    elif found is None:
        known = ", ".join(_UNITS)
        problem = f"got kind={kind!r}; expected one of {known}{did_you_mean(kind, _UNITS)}"
    else:
        problem = f"is of the kind {kind!r}; batched=True is for kind='normal'"
    message = f"{signature.location}: flow unit function {signature.name}() {problem}"
    raise ConfigError(message)


def declared_specs() -> list[FlowUnitSpec]:
    """Returns what the decorator has made in this process; a module's last one of each name."""
    with _lock:
        return [spec for units in _declared.values() for _, _, spec in units]


def _declare(function: Callable[..., Any], spec: FlowUnitSpec) -> None:
    """Enters a unit; a module that is run again, or under two names, replaces its own."""
    module, file = function.__module__, function.__code__.co_filename
    with _lock:
        others = _declared.get(spec.name, [])
        kept = [unit for unit in others if unit[0] != module and unit[1] != file]
        _declared[spec.name] = [*kept, (module, file, spec)]


class _Factory:
    """Makes the unit of a function; in another process, where it is looked up by its name."""

    def __init__(self, function: Any, make: "type[_FunctionUnit]", signature: Signature) -> None:
        self._function, self._make, self._signature = function, make, signature

    def __call__(self) -> FlowUnit:
        return self._make(self._signature)

    def __reduce__(self) -> Any:
        return _factory_of, (self._function,)


def _factory_of(function: Any) -> Any:
    (factory,) = function.SPEC.devices.values()
    return factory


class _FunctionUnit(FlowUnit):
    """Calls a function for each buffer, or for each batch."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._options: dict[str, Any] = {}
        self._items: Iterator[Any] | None = None

    def open(self, config: Mapping[str, Any]) -> None:
        self._options = dict(config)

    def process(self, ctx: Context) -> None:
        if not self._signature.inputs:
            self._produce(ctx)
        elif self._signature.is_batched:
            self._process_batch(ctx)
        else:
            self._process_each(ctx)

    def close(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()  # a generator's own clean-up

    def _process_each(self, ctx: Context) -> None:
        signature = self._signature
        for values in zip(*self._columns(ctx), strict=True):
            try:
                answer = signature.function(*values, **self._options)
                given = self._by_output(answer)
            except Exception as error:
                if not signature.outputs:
                    raise  # the batch is tried again one by one, which finds the guilty
                given = dict.fromkeys(signature.outputs, error)
            for name, value in given.items():
                ctx.outputs[name].append(value)

    def _process_batch(self, ctx: Context) -> None:
        answer = self._signature.function(*self._columns(ctx), **self._options)
        for name, values in self._by_output(answer).items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                message = (
                    f"{self._signature.name}() gave {type(values).__name__} for output "
                    f"{name!r}; a batched function gives a list"
                )
                raise TypeError(message)
            ctx.outputs[name].extend(values)

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
                # What came before goes out first; a generator that raised has nothing more.
                given = dict.fromkeys(self._signature.outputs, error)
                ctx.finish()
            for name, item in given.items():
                ctx.outputs[name].append(item)
            if ctx.is_finished or time.monotonic() - start > _SOURCE_PATIENCE:
                return

    def _stream(self) -> Iterator[Any]:
        if self._items is None:
            found = self._signature.function(**self._options)
            if not isinstance(found, Iterable):
                message = (
                    f"{self._signature.name}() returned {type(found).__name__}; a "
                    "function without inputs is a source: it yields its values, or returns a list"
                )
                raise TypeError(message)
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
        outputs, name = self._signature.outputs, self._signature.name
        if not outputs:
            return {}
        if answer is None:
            expected = f"output {outputs[0]!r}" if len(outputs) == 1 else f"the outputs {outputs}"
            message = f"{name}() returned None; expected a value for {expected} (no return?)"
            raise TypeError(message)
        if len(outputs) == 1:
            return {outputs[0]: answer}
        if isinstance(answer, Mapping) and set(answer) == set(outputs):
            return dict(answer)
        if isinstance(answer, tuple) and len(answer) == len(outputs):
            return dict(zip(outputs, answer, strict=True))
        message = (
            f"{name}() returned {type(answer).__name__}; expected a tuple of {len(outputs)} "
            f"values, or a mapping, for the outputs {outputs}"
        )
        raise TypeError(message)


class _ConditionFunction(_FunctionUnit):
    """Calls a function that names an output: a condition, or a loop."""

    def process(self, ctx: Context) -> None:
        signature = self._signature
        columns = self._columns(ctx)
        answer = signature.function(*(column[0] for column in columns), **self._options)
        if isinstance(answer, str) and answer in signature.outputs:
            ctx.outputs[answer].append(ctx.inputs[signature.inputs[0]][0])
        elif isinstance(answer, Mapping) and len(answer) == 1 and set(answer) <= set(ctx.outputs):
            ((output, value),) = answer.items()
            ctx.outputs[output].append(value)
        else:
            message = (
                f"{signature.name}() returned {answer!r:.80}; expected the name of an output, or "
                f"{{output: value}} (outputs: {', '.join(signature.outputs)})"
            )
            raise TypeError(message)


class _ExpandFunction(_FunctionUnit):
    """Calls a function that gives the values of a sub-stream."""

    def process(self, ctx: Context) -> None:
        signature = self._signature
        columns = self._columns(ctx)
        answer = signature.function(*(column[0] for column in columns), **self._options)
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            message = (
                f"{signature.name}() gave {type(answer).__name__}; an expand function gives a list "
                "of values, or yields them"
            )
            raise TypeError(message)
        for item in answer:
            for name, value in self._by_output(item).items():
                ctx.outputs[name].append(value)


class _CollapseFunction(_FunctionUnit):
    """Calls a function that gives one value for the lists of a sub-stream."""

    def process(self, ctx: Context) -> None:
        answer = self._signature.function(*self._columns(ctx), **self._options)
        for name, value in self._by_output(answer).items():
            ctx.outputs[name].append(value)


_UNITS: dict[str, type[_FunctionUnit]] = {
    "normal": _FunctionUnit,
    "condition": _ConditionFunction,
    "expand": _ExpandFunction,
    "collapse": _CollapseFunction,
    "loop": _ConditionFunction,
}
