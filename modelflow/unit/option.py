"""Options with a type, a default and a help text; texts are converted to the type.

A new type is a row of ``_SCALARS`` and of ``_NAMES`` here, and of ``_SCALARS`` of
``registry/json_schema.py``. Without the last row, editors check nothing.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, Literal, Union

from modelflow.errors import ConfigError, did_you_mean


class _Required(Enum):
    REQUIRED = "required"


REQUIRED = _Required.REQUIRED

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True)
class Option:
    """A declared option of a unit, or a key of a graph file.

    Attributes:
        name: The key.
        type: ``int``, ``float``, ``bool``, ``str``, a ``Literal`` of texts or numbers,
            ``tuple[float, ...]`` or ``list[str]`` (text is split at commas), ``X | None``, ``Any``.
        default: The value if none is given, or `REQUIRED` if a value must be given.
        help: One sentence, with the unit of the value.
        aliases: Other accepted spellings.
        minimum, maximum: Limits of a number, or of each number of a list, both included.
        is_path: Whether a relative path in a graph file is relative to that file.
    """

    name: str
    type: Any = str
    default: Any = REQUIRED
    help: str = ""
    aliases: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    is_path: bool = False

    @property
    def is_required(self) -> bool:
        """Tells whether a value must be given."""
        return self.default is REQUIRED

    def convert(self, value: Any, called: str | None = None) -> Any:
        """Converts ``value`` (from a file, or text from DOT) to the option's type.

        Args:
            value: The value.
            called: The option's name in the error. None: ``option 'NAME'``.

        Raises:
            ConfigError: The value has another form. The error names the option, the value and the
                expected form.
        """
        try:
            converted = convert(value, self.type)
            self._check_bounds(converted)
        except ValueError as error:
            called = f"option {self.name!r}" if called is None else called
            raise ConfigError(f"{called}: got {value!r}; expected {error}") from None
        return converted

    def _check_bounds(self, value: Any) -> None:
        if self.minimum is None and self.maximum is None:
            return
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            too_small = self.minimum is not None and number < self.minimum
            too_big = self.maximum is not None and number > self.maximum
            if too_small or too_big or number != number:  # NaN is in no range
                raise ValueError(self._range())

    def _range(self) -> str:
        if self.maximum is None:
            return f"a number of at least {_plain(self.minimum)}"
        if self.minimum is None:
            return f"a number of at most {_plain(self.maximum)}"
        return f"a number from {_plain(self.minimum)} to {_plain(self.maximum)}"


def _plain(number: float | None) -> str:
    if number is None:
        return "any"
    return str(int(number)) if number == int(number) else f"{number:g}"


def option(
    default: Any = MISSING,
    *,
    help: str,  # noqa: A002 - the field's name, as in argparse and click
    aliases: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    is_path: bool = False,
) -> Any:
    """Declares a field of an options dataclass; see `Option` for the arguments."""
    declared = Option(
        "", help=help, aliases=aliases, minimum=minimum, maximum=maximum, is_path=is_path
    )
    return dataclasses.field(default=default, metadata={"option": declared})


def options_of(options: type[Any]) -> tuple[Option, ...]:
    """Returns the options that a dataclass declares, in order."""
    hints = typing.get_type_hints(options)
    return tuple(
        dataclasses.replace(
            field.metadata.get("option", Option("")),
            name=field.name,
            type=hints[field.name],
            default=REQUIRED if field.default is MISSING else field.default,
        )
        for field in dataclasses.fields(options)
        if field.init
    )


def options_from(values: Mapping[str, Any]) -> tuple[Option, ...]:
    """Returns options with ``values`` as defaults, and with the types of these values."""
    return tuple(Option(name, _type_of(value), value) for name, value in values.items())


def with_defaults(options: Any, changed: tuple[Option, ...]) -> Any:
    """Returns an options dataclass, or a tuple of options, with other defaults.

    Args:
        options: The dataclass, or a tuple of `Option`.
        changed: The options with their new defaults; for a tuple, all options. Required options
            stay required.
    """
    if isinstance(options, tuple):
        return changed
    fields: list[tuple[str, Any, Any]] = []
    for declared in changed:
        if not declared.is_required:
            # By keyword, because a required field may now follow a field with a default.
            field = dataclasses.field(
                default=declared.default, metadata={"option": declared}, kw_only=True
            )
            fields.append((declared.name, declared.type, field))
    is_frozen = options.__dataclass_params__.frozen
    return dataclasses.make_dataclass(options.__name__, fields, bases=(options,), frozen=is_frozen)


class Config(Mapping[str, Any]):
    """The options of a unit that declares no dataclass: a read-only mapping with attributes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(_no_option(name, self._values)) from None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(_no_option(name, self.__dict__.get("_values", ()))) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({self._values!r})"


def _no_option(name: str, known: Collection[str]) -> str:
    near = did_you_mean(str(name), known)
    return f"no option {name!r}{near} (options: {', '.join(known) or 'none'})"


def convert(value: Any, wanted: Any) -> Any:
    """Converts a value of a file, or the text of a DOT attribute, to the type ``wanted``.

    Raises:
        ValueError: The value does not fit. The text is the expected form ("a whole number").
    """
    origin = typing.get_origin(wanted)
    if wanted is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, typing.get_args(wanted))
    if origin is Literal:
        return _convert_choice(value, typing.get_args(wanted))
    if origin in (tuple, list, Sequence):
        return _convert_list(value, origin, typing.get_args(wanted))
    converter = _SCALARS.get(wanted)
    if converter is None:
        if isinstance(value, wanted):
            return value
        raise ValueError(type_name(wanted))
    return converter(value)


def type_name(wanted: Any) -> str:
    """Returns the name of an option's type for messages and the manual."""
    origin, args = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return "any value"
    if origin in (Union, types.UnionType):
        return " or ".join("none" if arg is type(None) else type_name(arg) for arg in args)
    if origin is Literal:
        return "one of " + ", ".join(repr(arg) for arg in args)
    if origin in (tuple, list, Sequence):
        if len(args) == 1 or args[-1] is Ellipsis:
            return f"a list of values, each {type_name(args[0])}"
        return f"{len(args)} values, each {type_name(args[0])}"
    return _NAMES.get(wanted, getattr(wanted, "__name__", str(wanted)))


def choices_of(wanted: Any) -> list[str]:
    """Returns the possible values of an option of this type as texts; empty for many values."""
    if wanted is bool:
        return ["true", "false"]
    args = typing.get_args(wanted)
    if typing.get_origin(wanted) is Literal:
        return list(map(str, args))
    is_union = typing.get_origin(wanted) in (Union, types.UnionType)
    return [choice for arg in args for choice in choices_of(arg)] if is_union else []


def _type_of(value: Any) -> Any:
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        return list[kinds.pop()] if len(kinds) == 1 else list[str]  # type: ignore[misc]
    return type(value) if isinstance(value, bool | int | float | str) else Any


def _convert_union(value: Any, args: tuple[Any, ...]) -> Any:
    if type(None) in args and (value is None or value in ("", "none")):
        return None
    expected = []
    for arg in args:
        if arg is not type(None):
            try:
                return convert(value, arg)
            except ValueError as error:
                expected.append(str(error))
    raise ValueError(" or ".join(expected))


def _convert_choice(value: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if value == choice and type(value) is type(choice):
            return choice
        if isinstance(value, str) and value.strip() == str(choice):
            return choice
    expected = "one of " + ", ".join(repr(choice) for choice in choices)
    raise ValueError(expected + did_you_mean(str(value), map(str, choices)))


def _convert_list(value: Any, origin: Any, args: tuple[Any, ...]) -> Any:
    if isinstance(value, str):
        items: list[Any] = [part.strip() for part in value.split(",")] if value.strip() else []
    elif isinstance(value, Sequence):
        items = list(value)
    else:
        items = [value]
    fixed = len(args) if args and args[-1] is not Ellipsis and origin is tuple else None
    item_type = args[0] if args else str
    try:
        converted = [convert(item, item_type) for item in items]
    except ValueError as error:
        raise ValueError(f"a list of values, each {error}") from None
    if fixed is not None and len(converted) != fixed:
        raise ValueError(f"{fixed} values, each {type_name(item_type)}")
    return converted if origin is list else tuple(converted)


def _to_int(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", text := value.strip()):
        return int(text)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(_NAMES[int])


def _to_float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:  # the error below has our words
            pass
    raise ValueError(_NAMES[float])


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, str | int) else ""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(_NAMES[bool])


def _to_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ValueError(_NAMES[str])


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_str,
}
_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
}
