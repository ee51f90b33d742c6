"""The decorator: an ordinary function becomes a flow unit, and stays an ordinary function."""

import dataclasses
import inspect
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from modelflow.errors import ConfigError, did_you_mean
from modelflow.unit.function_units import (
    FUNCTION_UNITS,
    ConditionFunction,
    ExpandFunction,
    FunctionUnit,
)
from modelflow.unit.kind import KIND_TYPES, Kind, Normal, kind_of
from modelflow.unit.port import Port
from modelflow.unit.signature import Signature, read_signature
from modelflow.unit.spec import FlowUnitSpec

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


@overload
def flowunit(
    function: Callable[Parameters, Answer],
) -> FlowUnitFunction[Parameters, Answer]: ...
@overload
def flowunit(
    function: None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str | Port] | None = None,
    outputs: Sequence[str | Port] = ("out",),
    device: str = "cpu",
    kind: str | Kind = "normal",
    batched: bool = False,
    **more: Any,
) -> Callable[[Callable[Parameters, Answer]], FlowUnitFunction[Parameters, Answer]]: ...
def flowunit(  # noqa: PLR0913 - each is a word of the author's
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    inputs: Sequence[str | Port] | None = None,
    outputs: Sequence[str | Port] = ("out",),
    device: str = "cpu",
    kind: str | Kind = "normal",
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
        inputs: The inputs, by name, or as a `Port` that declares more: its type, its shape; None:
            named as the positional parameters.
        outputs: The outputs, likewise. With several, the function returns a tuple in this order,
            or a mapping.
        device: The device kind.
        kind: The kind of unit, as a `Kind` or by name; a stream unit keeps state, and is written as
            a class.
        batched: The function takes lists and returns lists of the same length.
        more: Further fields of `FlowUnitSpec`: ``batch_size``, ``threads``, ``group``, ``aliases``.

    Returns:
        The function, with its description as ``function.SPEC``.

    Raises:
        ConfigError: the function's signature does not fit, or a word that does not exist.
    """

    def declare(function: Callable[..., Any]) -> Any:
        signature = read_signature(function, inputs, outputs, batched)
        _check_fields(more, signature)
        made, make = _kind_and_type(signature, kind)
        fields = {
            "is_one_by_one": isinstance(made, Normal) and not batched,
            "group": "Functions",
            **more,
        }
        spec = FlowUnitSpec(
            name=name or signature.name,
            devices={device: partial(make, signature)},
            kind=made,
            inputs=signature.input_ports(),
            outputs=signature.output_ports(),
            options=signature.options,
            description=fields.pop("description", None) or signature.description,
            location=signature.location,
            **fields,
        )
        function.SPEC = spec  # type: ignore[attr-defined]
        _declare(function, spec)
        return function

    return declare if function is None else declare(function)


def _check_fields(more: Mapping[str, Any], signature: Signature) -> None:
    known = {field.name for field in dataclasses.fields(FlowUnitSpec) if field.init} - _SET
    for name in more:
        if name not in known:
            names = {*known, *inspect.signature(flowunit).parameters} - {"more"}
            kinds = [kind for kind in KIND_TYPES if name in kind.__dataclass_fields__]
            inside = " or ".join(f"kind=modelflow.{kind.__name__}({name}=...)" for kind in kinds)
            near = f"; expected {inside}" if kinds else did_you_mean(name, names)
            raise ConfigError(
                f"{signature.location}: flow unit function {signature.name}(): @flowunit has no "
                f"{name!r}{near}"
            )


# Fields that the decorator itself sets.
_SET = frozenset({"name", "devices", "kind", "inputs", "outputs", "options", "location"})


def _kind_and_type(signature: Signature, given: str | Kind) -> tuple[Kind, type[FunctionUnit]]:
    """Returns the kind that is given, and the class that calls a function of it."""
    try:
        kind = kind_of(given)
    except ConfigError as error:
        raise _wrong(signature, str(error)) from None
    found = FUNCTION_UNITS.get(type(kind))
    yields = inspect.isgeneratorfunction(signature.function)
    if found is None:
        problem = f"is of the kind '{kind}', which keeps state: write a class (modelflow.FlowUnit)"
    elif yields and signature.inputs and found is not ExpandFunction:
        problem = f"yields, and is of the kind '{kind}'; expected a return, or kind='expand'"
    elif found is ConditionFunction and len(signature.outputs) < 2:
        problem = (
            f"has {len(signature.outputs)} outputs; a {kind} has at least two: "
            "outputs=('one', 'other')"
        )
    elif isinstance(kind, Normal) or not signature.is_batched:
        return kind, found
    else:
        problem = f"is of the kind '{kind}'; batched=True is for kind='normal'"
    raise _wrong(signature, problem)


def _wrong(signature: Signature, problem: str) -> ConfigError:
    return ConfigError(f"{signature.location}: flow unit function {signature.name}() {problem}")


def list_declared() -> list[FlowUnitSpec]:
    """Returns what the decorator has made in this process; a module's last one of each name."""
    with _lock:
        return [spec for units in _declared.values() for _, _, spec in units]


def forget_declared(modules: Collection[str]) -> None:
    """Forgets what was declared in modules that are to be imported anew."""
    with _lock:
        for name, others in list(_declared.items()):
            _declared[name] = [unit for unit in others if unit[0] not in modules]
            if not _declared[name]:
                del _declared[name]


def _declare(function: Callable[..., Any], spec: FlowUnitSpec) -> None:
    """Enters a unit; a module that is run again, or under two names, replaces its own."""
    module, file = function.__module__, function.__code__.co_filename
    with _lock:
        others = _declared.get(spec.name, [])
        kept = [unit for unit in others if unit[0] != module and unit[1] != file]
        _declared[spec.name] = [*kept, (module, file, spec)]
