"""The signature of a function as a flow unit: its ports and options."""

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from modelflow.buffer import Buffer
from modelflow.errors import ConfigError, Location, below_here
from modelflow.unit.option import REQUIRED, Option
from modelflow.unit.port import Port


@dataclass(frozen=True)
class Signature:
    """The signature of a function.

    Attributes:
        function: The function.
        inputs, outputs: The names of the ports.
        declared_inputs, declared_outputs: The ports that the author has declared as a `Port`, by
        name.
        takes_buffers: For each input, whether the function wants the `Buffer` itself.
        is_batched: Whether the function takes and returns lists.
        options: The options.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    takes_buffers: tuple[bool, ...]
    is_batched: bool
    options: tuple[Option, ...]
    declared_inputs: Mapping[str, Port]
    declared_outputs: Mapping[str, Port]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def location(self) -> Location:
        """The location of the function."""
        return _location(self.function)

    def input_ports(self) -> tuple[Port, ...]:
        """Returns the inputs, with the descriptions of the parameters in the docstring."""
        help_of = _argument_help(self.function)
        # Positional parameters come before the others in a signature.
        parameters = inspect.signature(self.function).parameters
        return tuple(
            self.declared_inputs.get(name) or Port(name, help_of.get(parameter, ""))
            for name, parameter in zip(self.inputs, parameters, strict=False)
        )

    def output_ports(self) -> tuple[Port, ...]:
        """Returns the outputs, with the description in ``Returns:`` of the docstring."""
        lines = _section_lines(self.function, "Returns")
        returned = " ".join(line.strip() for line in lines).strip()
        return tuple(
            self.declared_outputs.get(name) or Port(name, returned) for name in self.outputs
        )


def read_signature(
    function: Callable[..., Any],
    inputs: Sequence[str | Port] | None,
    outputs: Sequence[str | Port],
    is_batched: bool,
) -> Signature:
    """Reads the signature of ``function``.

    Args:
        function: The function.
        inputs: The inputs, by name or as a `Port`. None: the names of the positional parameters.
        outputs: The outputs, by name or as a `Port`.
        is_batched: Whether the function takes and returns lists.

    Raises:
        ConfigError: The object is no function, or the function cannot be a flow unit. The error has
            its location.
    """
    _require_function(function, inputs, outputs)
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
                f"gives the input {parameter.name!r} a default; put options behind '*' in the "
                "signature",
            )
        else:
            positional.append(parameter.name)
    names = tuple(positional) if inputs is None else _names(inputs)
    if len(names) != len(positional):
        _refuse(function, f"takes {len(positional)} inputs; inputs= names {len(names)}")
    wanted = (hints.get(name) for name in positional)
    wants = tuple(hint is Buffer or Buffer in typing.get_args(hint) for hint in wanted)
    return Signature(
        function,
        names,
        _names(outputs),
        wants,
        is_batched,
        tuple(options),
        _read_declared(inputs or ()),
        _read_declared(outputs),
    )


def _names(ports: Sequence[str | Port]) -> tuple[str, ...]:
    return tuple(port.name if isinstance(port, Port) else port for port in ports)


def _read_declared(ports: Sequence[str | Port]) -> dict[str, Port]:
    return {port.name: port for port in ports if isinstance(port, Port)}


def _require_function(
    function: Callable[..., Any],
    inputs: Sequence[str | Port] | None,
    outputs: Sequence[str | Port],
) -> None:
    if not inspect.isfunction(function):
        raise ConfigError(
            f"got {function!r} as a flow unit; expected a function: wrap it in a 'def'"
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, "is asynchronous; a flow unit runs on a thread of its own: use 'def'")
    for what, names in (("inputs", inputs), ("outputs", outputs)):
        if isinstance(names, str):
            _refuse(function, f"has {what}={names!r}; expected a tuple: {what}=({names!r},)")
        for name in names or ():
            if not isinstance(name, str | Port):
                _refuse(function, f"has {name!r} in {what}=; expected a name, or a Port")


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
    """Returns the annotations; for inputs, names that only the type checker knows are allowed."""
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


def _argument_help(function: Callable[..., Any]) -> dict[str, str]:
    """Returns the texts in ``Args:`` of a Google-style docstring by argument."""
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


def _section_lines(function: Callable[..., Any], title: str) -> list[str]:
    """Returns the indented lines below ``title:`` in a docstring."""
    _, _, below = (inspect.getdoc(function) or "").partition(f"{title}:\n")
    ends = re.search(r"^\S", below, re.MULTILINE)
    return below[: ends.start() if ends else None].splitlines()


def _location(function: Callable[..., Any]) -> Location:
    code = getattr(function, "__code__", None)
    if code is None:
        return Location("<built-in>")
    return Location(below_here(code.co_filename), code.co_firstlineno)


def _refuse(function: Callable[..., Any], problem: str) -> typing.NoReturn:
    raise ConfigError(f"{_location(function)}: flow unit function {function.__name__}() {problem}")
