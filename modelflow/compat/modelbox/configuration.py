"""`Configuration`: typed values by name, stored as text like in ModelBox."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

# The separator of list items in one text.
_SEPARATOR = "\x03"
_ITEM = re.compile(r"\s*(?:'([^']*)'|\"([^\"]*)\"|([^,]*))\s*(?:,|$)")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
T = TypeVar("T")


def _bool(text: str) -> bool:
    if text not in _BOOLS:
        raise ValueError(text)
    return _BOOLS[text]


def _getter(convert: Callable[[str], T], default: T) -> Callable[..., T]:
    """Returns a method that reads a value, or returns the caller's default for an invalid value."""
    usual = default

    def get(self: "Configuration", key: str, default: T = usual) -> T:
        text = self._values.get(key)
        try:
            return default if text is None else convert(text)
        except ValueError:
            return default

    return get


def _list_getter(convert: Callable[[str], T]) -> Callable[..., list[T]]:
    """Returns a method that reads a list of values; see `_getter`."""

    def items(text: str) -> Iterable[T]:
        return [convert(item) for item in text.split(_SEPARATOR)]

    none: Iterable[T] = ()
    get = _getter(items, default=none)
    return lambda self, key, default=(): list(get(self, key, default))


class Configuration:
    """Values by name. A getter returns the caller's default for a missing or invalid value."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    @classmethod
    def of_attributes(cls, attributes: Mapping[str, Any]) -> Self:
        """Reads the attributes of a node; a text with commas outside quotes becomes a list."""
        found = cls()
        for key, value in attributes.items():
            if value is None or value == "":
                continue
            if isinstance(value, str):
                items = _split(value)
                found._values[key] = _SEPARATOR.join(items)
            elif isinstance(value, bool | int | float | list | tuple):
                found.set(key, value)
            else:
                found._values[key] = str(value)
        return found

    def set(self, key: str, value: "str | bool | float | Sequence[Any]") -> None:
        """Stores a text, bool, number, or a list of them.

        Raises:
            ValueError: The value has another type.
        """
        if isinstance(value, list | tuple):
            self._values[key] = _SEPARATOR.join(_text(key, item) for item in value)
        else:
            self._values[key] = _text(key, value)

    def keys(self) -> list[str]:
        """Returns the names of the values."""
        return list(self._values)

    def get_string(self, key: str, default: str = "") -> str:
        """Returns a value as text."""
        return self._values.get(key, default)

    get_bool = _getter(_bool, default=False)
    get_int = _getter(int, default=0)
    get_float = _getter(float, default=0.0)
    get_string_list = _list_getter(str)
    get_bool_list = _list_getter(_bool)
    get_int_list = _list_getter(int)
    get_float_list = _list_getter(float)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(
        f"{key!r}: got {value!r}; expected a text, a bool, a number, or a list of them"
    )


def _split(text: str) -> list[str]:
    """Splits a text at commas outside quotes, and removes the quotes."""
    if "," not in text and not text.startswith(("'", '"')):
        return [text]
    items: list[str] = []
    for found in _ITEM.finditer(text):
        if found.start() == len(text) and items and not text.endswith(","):
            break
        items.append(next((group for group in found.groups() if group is not None), "").strip())
    return items
