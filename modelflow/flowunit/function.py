"""The decorator: an ordinary function becomes a flow unit, and stays an ordinary function."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from modelflow.flowunit.signature import Signature, read_signature
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import Context, FlowUnit

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
    batched: bool = False,
    **more: Any,
) -> Callable[[Callable[Parameters, Answer]], FlowUnitFunction[Parameters, Answer]]: ...
def flowunit(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("out",),
    device: str = "cpu",
    batched: bool = False,
    **more: Any,
) -> Any:
    """Makes a function a flow unit; the function itself is unchanged.

    Positional parameters are the inputs; keyword-only ones are the options, with the types and
    defaults of the signature and the help of the docstring. The function gets the *data* of one
    buffer for each input (the `Buffer` itself where the parameter is annotated so) and returns the
    data of its output. A function without inputs is a source: what it yields is the stream. One
    with ``outputs=()`` is a sink.

    Args:
        function: The function, where the decorator is used without parentheses.
        name: The unit's name; None: the function's.
        inputs: The names of the ports; None: the names of the positional parameters.
        outputs: The names of the outputs. With several, the function returns a tuple in this order,
            or a mapping.
        device: The device kind.
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
            batched=batched,
            **more,
        )
    signature = read_signature(function, inputs, outputs, batched)
    spec = FlowUnitSpec(
        name=name or signature.name,
        devices={device: lambda: _FunctionUnit(signature)},
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
