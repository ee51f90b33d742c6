"""`Configuration`: typed values by name, kept as text, as ModelBox keeps them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

# What joins the items of a list in one text.
_SEPARATOR = "\x03"
_ITEM = re.compile(r"\s*(?:'([^']*)'|\"([^\"]*)\"|([^,]*))\s*(?:,|$)")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
T = TypeVar("T")


class Configuration:
    """Values by name. What is not there, or does not convert, gives the caller's default."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    @classmethod
    def of_attributes(cls, attributes: Mapping[str, Any]) -> Self:
        """Returns the attributes of a node: a text with commas outside quotes is a list."""
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
            ValueError: a value of another type.
        """
        if isinstance(value, list | tuple):
            self._values[key] = _SEPARATOR.join(_text(key, item) for item in value)
        else:
            self._values[key] = _text(key, value)

    def keys(self) -> list[str]:
        """Returns the names of the values."""
        return list(self._values)

    def get_string(self, key: str, default: str = "") -> str:
        """Returns a text."""
        return self._values.get(key, default)

    def get_bool(self, key: str, default: bool = False) -> bool:
        """Returns a bool: ``true``, ``false``, ``1`` or ``0``."""
        return self._one(key, default, _bool)

    def get_int(self, key: str, default: int = 0) -> int:
        """Returns an integer."""
        return self._one(key, default, int)

    def get_float(self, key: str, default: float = 0.0) -> float:
        """Returns a float."""
        return self._one(key, default, float)

    def get_string_list(self, key: str, default: Iterable[str] = ()) -> list[str]:
        """Returns a list of texts."""
        return self._list(key, default, str)

    def get_bool_list(self, key: str, default: Iterable[bool] = ()) -> list[bool]:
        """Returns a list of bools."""
        return self._list(key, default, _bool)

    def get_int_list(self, key: str, default: Iterable[int] = ()) -> list[int]:
        """Returns a list of integers."""
        return self._list(key, default, int)

    def get_float_list(self, key: str, default: Iterable[float] = ()) -> list[float]:
        """Returns a list of floats."""
        return self._list(key, default, float)

    def _one(self, key: str, default: T, convert: Callable[[str], T]) -> T:
        text = self._values.get(key)
        try:
            return default if text is None else convert(text)
        except ValueError:  # ModelBox's rule: the caller's default
            return default

    def _list(self, key: str, default: Iterable[T], convert: Callable[[str], T]) -> list[T]:
        text = self._values.get(key)
        try:
            return list(default) if text is None else list(map(convert, text.split(_SEPARATOR)))
        except ValueError:  # ModelBox's rule: the caller's default
            return list(default)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    message = f"{key!r}: got {value!r}; expected a text, a bool, a number, or a list of them"
    raise ValueError(message)


def _bool(text: str) -> bool:
    if text not in _BOOLS:
        raise ValueError(text)
    return _BOOLS[text]


def _split(text: str) -> list[str]:
    """Splits at commas outside quotes; the quotes go."""
    if "," not in text and not text.startswith(("'", '"')):
        return [text]
    items: list[str] = []
    for found in _ITEM.finditer(text):
        if found.start() == len(text) and items and not text.endswith(","):
            break
        items.append(next((group for group in found.groups() if group is not None), "").strip())
    return items
