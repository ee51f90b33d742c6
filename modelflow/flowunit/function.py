"""The decorator: an ordinary function becomes a flow unit, and stays an ordinary function."""

import inspect
import re
import threading
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError, Location
from modelflow.flowunit.option import REQUIRED, Option
from modelflow.flowunit.spec import FlowUnitSpec, Port
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


@dataclass(frozen=True)
class _Shape:
    """How a function is called.

    Attributes:
        function: The function.
        inputs, outputs: Its ports.
        takes_buffers: For each input, whether the function wants the `Buffer` itself.
        is_batched: It takes and gives lists.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    takes_buffers: tuple[bool, ...]
    is_batched: bool

    def input_ports(self) -> tuple[Port, ...]:
        """The inputs, described as the docstring describes the parameters."""
        help_of = _argument_help(self.function)
        # Positional parameters stand before the others in a signature.
        parameters = inspect.signature(self.function).parameters
        return tuple(
            Port(name, help_of.get(parameter, ""))
            for name, parameter in zip(self.inputs, parameters, strict=False)
        )


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
    _require_function(function, inputs, outputs)
    shape, options = _shape_of(function, inputs, tuple(outputs), batched)
    spec = FlowUnitSpec(
        name=name or function.__name__,
        devices={device: lambda: _FunctionUnit(shape)},
        inputs=shape.input_ports(),
        outputs=tuple(Port(port, _section(function, "Returns")) for port in shape.outputs),
        options=options,
        description=more.pop("description", None)
        or (inspect.getdoc(function) or "").split("\n")[0],
        location=_location(function),
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

    def __init__(self, shape: _Shape) -> None:
        self._shape = shape
        self._options: dict[str, Any] = {}
        self._items: Iterator[Any] | None = None

    def open(self, config: Mapping[str, Any]) -> None:
        self._options = dict(config)

    def process(self, ctx: Context) -> None:
        if not self._shape.inputs:
            self._produce(ctx)
        elif self._shape.is_batched:
            self._process_batch(ctx)
        else:
            self._process_each(ctx)

    def close(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()  # a generator's own clean-up

    def _process_each(self, ctx: Context) -> None:
        shape = self._shape
        for values in zip(*self._columns(ctx), strict=True):
            try:
                answer = shape.function(*values, **self._options)
                given = self._by_output(answer)
            except Exception as error:
                if not shape.outputs:
                    raise  # the batch is tried again one by one, which finds the guilty
                given = dict.fromkeys(shape.outputs, error)
            for name, value in given.items():
                ctx.outputs[name].append(value)

    def _process_batch(self, ctx: Context) -> None:
        answer = self._shape.function(*self._columns(ctx), **self._options)
        for name, values in self._by_output(answer).items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                message = (
                    f"{self._shape.function.__name__}() gave {type(values).__name__} for output "
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
                given = dict.fromkeys(self._shape.outputs, error)
                ctx.finish()
            for name, item in given.items():
                ctx.outputs[name].append(item)
            if ctx.is_finished or time.monotonic() - start > _SOURCE_PATIENCE:
                return

    def _stream(self) -> Iterator[Any]:
        if self._items is None:
            found = self._shape.function(**self._options)
            if not isinstance(found, Iterable):
                message = (
                    f"{self._shape.function.__name__}() returned {type(found).__name__}; a "
                    "function without inputs is a source: it yields its values, or returns a list"
                )
                raise TypeError(message)
            self._items = iter(found)
        return self._items

    def _columns(self, ctx: Context) -> list[list[Any]]:
        return [
            list(ctx.inputs[name]) if wants else [buffer.data for buffer in ctx.inputs[name]]
            for name, wants in zip(self._shape.inputs, self._shape.takes_buffers, strict=True)
        ]

    def _by_output(self, answer: Any) -> dict[str, Any]:
        outputs, name = self._shape.outputs, self._shape.function.__name__
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


def _require_function(
    function: Callable[..., Any], inputs: Sequence[str] | None, outputs: Sequence[str]
) -> None:
    if not inspect.isfunction(function):
        message = f"got {function!r} as a flow unit; expected a function: wrap it in a 'def'"
        raise ConfigError(message)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, "is asynchronous; a flow unit runs on a thread of its own: use 'def'")
    for what, names in (("inputs", inputs), ("outputs", outputs)):
        if isinstance(names, str):
            _refuse(function, f"has {what}={names!r}; expected a tuple: {what}=({names!r},)")


def _shape_of(
    function: Callable[..., Any],
    inputs: Sequence[str] | None,
    outputs: tuple[str, ...],
    batched: bool,
) -> tuple[_Shape, tuple[Option, ...]]:
    hints = _hints(function)
    help_of = _argument_help(function)
    positional: list[str] = []
    options: list[Option] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            _refuse(function, f"has {parameter}; expected named inputs and keyword-only options")
        if parameter.kind is parameter.KEYWORD_ONLY:
            options.append(_option(parameter, hints, help_of))
        elif parameter.default is not parameter.empty:
            _refuse(
                function,
                f"gives the input {parameter.name!r} a default; options stand behind '*' in the "
                "signature",
            )
        else:
            positional.append(parameter.name)
    names = tuple(positional if inputs is None else inputs)
    if len(names) != len(positional):
        _refuse(function, f"takes {len(positional)} inputs; inputs= names {len(names)}")
    wants = tuple(_is_buffer(hints.get(name)) for name in positional)
    return _Shape(function, names, outputs, wants, batched), tuple(options)


def _option(
    parameter: inspect.Parameter, hints: Mapping[str, Any], help_of: Mapping[str, str]
) -> Option:
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    wanted = hints.get(parameter.name)
    if wanted is None:
        known = default is not REQUIRED and default is not None
        wanted = type(default) if known else Any
    return Option(parameter.name, wanted, default, help_of.get(parameter.name, ""))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Reads the annotations; those of inputs may be of names that only the type checker knows."""
    hints: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation is parameter.empty:
            continue
        alone = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hints |= typing.get_type_hints(alone, getattr(function, "__globals__", {}))
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            if parameter.kind is parameter.KEYWORD_ONLY or "Buffer" in str(parameter.annotation):
                _refuse(
                    function,
                    f"has an annotation of {parameter.name!r} that cannot be read: {error}",
                )
    return hints


def _is_buffer(hint: Any) -> bool:
    return hint is Buffer or Buffer in typing.get_args(hint)


def _argument_help(function: Callable[..., Any]) -> dict[str, str]:
    """Reads the ``Args:`` of a Google-style docstring."""
    found: dict[str, str] = {}
    name = ""
    for line in _section_lines(function, "Args"):
        argument = re.match(r"    (\w+)(?: \([^)]*\))?: (.*)", line)
        if argument:
            name = argument[1]
            found[name] = argument[2].strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def _section(function: Callable[..., Any], title: str) -> str:
    return " ".join(line.strip() for line in _section_lines(function, title)).strip()


def _section_lines(function: Callable[..., Any], title: str) -> list[str]:
    """Returns the indented lines below ``title:`` in a docstring."""
    _, _, below = (inspect.getdoc(function) or "").partition(f"{title}:\n")
    ends = re.search(r"^\S", below, re.MULTILINE)
    return below[: ends.start() if ends else None].splitlines()


def _location(function: Callable[..., Any]) -> Location:
    code = getattr(function, "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code else Location("<built-in>")


def _refuse(function: Callable[..., Any], problem: str) -> typing.NoReturn:
    message = f"{_location(function)}: flow unit function {function.__name__}() {problem}"
    raise ConfigError(message)
