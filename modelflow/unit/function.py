"""The decorator that makes a flow unit from a function, which stays an ordinary function."""

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
    """A decorated function, with its description as a flow unit."""

    SPEC: FlowUnitSpec

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        """Calls the function."""


# Name -> its units, each with module and file. The look-up chooses among units of one name.
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
def flowunit(  # noqa: PLR0913 - each is an argument of the decorator
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

    Positional parameters are the inputs. Keyword-only parameters are the options, with the types
    and defaults of the signature and the help of the docstring. The function gets the *data* of one
    buffer for each input, or the `Buffer` itself if the parameter is annotated so. It returns the
    data of its output. A function without inputs is a source, and its yielded values are the
    stream. A function with ``outputs=()`` is a sink.

    The return value depends on ``kind``:

    - ``normal``: the value of the output.
    - ``condition``, ``loop``: the name of the output for the (first) input, or ``{output: value}``
      for another value.
    - ``expand``: the values of the sub-stream, as a list, or yielded.
    - ``collapse``: the value for a whole sub-stream. The parameters are lists.

    Args:
        function: The function, if the decorator is used without parentheses.
        name: The unit's name. None: the function's name.
        inputs: The inputs, by name, or as a `Port` that also declares type and shape. None: the
            names of the positional parameters.
        outputs: The outputs, by name or as a `Port`. With several outputs, the function returns a
            tuple in this order, or a mapping.
        device: The device kind.
        kind: The kind of unit, as a `Kind` or by name. A stream unit keeps state, and must be a
            class.
        batched: Whether the function takes lists and returns lists of the same length.
        more: Further fields of `FlowUnitSpec`: ``batch_size``, ``threads``, ``group``, ``aliases``.

    Returns:
        The function, with its description as ``function.SPEC``.

    Raises:
        ConfigError: The function's signature does not fit, or an argument does not exist.
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
    """Returns the given kind, and the class that calls a function of this kind."""
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
    """Returns the decorated units of this process; the last unit of each name in a module."""
    with _lock:
        return [spec for units in _declared.values() for _, _, spec in units]


def forget_declared(modules: Collection[str]) -> None:
    """Forgets the units of modules that will be imported again."""
    with _lock:
        for name, others in list(_declared.items()):
            _declared[name] = [unit for unit in others if unit[0] not in modules]
            if not _declared[name]:
                del _declared[name]


def _declare(function: Callable[..., Any], spec: FlowUnitSpec) -> None:
    """Registers a unit in place of the unit with the same name and module, or name and file."""
    module, file = function.__module__, function.__code__.co_filename
    with _lock:
        others = _declared.get(spec.name, [])
        kept = [unit for unit in others if unit[0] != module and unit[1] != file]
        _declared[spec.name] = [*kept, (module, file, spec)]
