"""What JSON holds of a value: boxes as mappings, arrays as lists, bytes as the text that they are.

``[Box(1, 2, 3, 4, 0.9, 0, "cat")]`` becomes ``[{"x": 1, "y": 2, ..., "label": "cat"}]``.
"""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

_MAX_DEPTH = 64
# In short, arrays of so many values, and texts of so many bytes, are whole in any case.
_MOST_VALUES = 4096
_MOST_TEXT = 1 << 16


def number_lists(array: "npt.NDArray[Any] | np.generic") -> Any:
    """Returns an array as nested lists, where each float has the fewest digits that mean it.

    ``np.float32(0.1)`` becomes ``0.1``; its own ``tolist()`` gives ``0.10000000149011612``.

    Args:
        array: Of any type; one without axes, or a scalar of NumPy's, gives a single value.
    """
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.str_).astype(np.float64)
    elif array.dtype.char in "gG":  # longer than Python's own
        array = array.astype(np.float64 if array.dtype.char == "g" else np.complex128)
    return array.tolist()


def json_value(value: Any, depth: int = 0) -> Any:
    """Returns a value as what JSON knows.

    Args:
        value: Numbers, texts, bytes, arrays, lists, mappings, named tuples, and what is made of
            them.
        depth: How deep it lies in a larger one.

    Raises:
        ValueError: it holds something else, bytes that are no UTF-8, or is nested too deeply.
    """
    return _convert(value, _strict, depth)


def show_value(value: Any, *, is_whole: bool = False) -> Any:
    """Returns a value as a line of results holds it, for `json_line`.

    Args:
        value: Any value.
        is_whole: Large arrays as they are, bytes in base64.

    Raises:
        ValueError: it is nested too deeply.
    """
    return _convert(value, partial(_in_short, is_whole), 0)


def is_in_short(value: Any) -> bool:
    """Tells whether something of a value is left out unless it is shown whole."""
    match value:
        case np.ndarray():
            return value.size > _MOST_VALUES
        case bytes() | bytearray() | memoryview():
            return _text(bytes(value)) is None
        case Mapping():
            return any(map(is_in_short, value.values()))
        case list() | tuple():
            return any(map(is_in_short, value))
    return False


def _convert(value: Any, leaf: Callable[[Any, int], Any], depth: int) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if not isinstance(value, Mapping | list | tuple):
        return leaf(value, depth)
    if depth >= _MAX_DEPTH:
        raise ValueError(f"got data nested deeper than {_MAX_DEPTH}; expected less for JSON")
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _convert(held, leaf, depth + 1) for key, held in value.items()}
    return [_convert(held, leaf, depth + 1) for held in value]


def _strict(value: Any, depth: int) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        held = number_lists(value)
        return json_value(held, depth) if value.dtype.hasobject else held
    if isinstance(value, bytes | bytearray | memoryview):
        return str(value, "utf-8")
    raise ValueError(f"got {type(value).__name__}; expected data that JSON can hold")


def _in_short(is_whole: bool, value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value), is_whole)
    if not isinstance(value, np.ndarray | np.generic):
        return repr(value)
    is_numeric = value.dtype.kind in "iufb"
    if is_whole or value.size <= _MOST_VALUES:
        if is_numeric and type(value) is np.ndarray:
            return value  # which `json_line` writes
        return _convert(number_lists(value), partial(_in_short, is_whole), depth)
    summary: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if is_numeric:
        summary |= {"min": show_value(value.min()), "max": show_value(value.max())}
        summary |= {"first": show_value(value.reshape(-1)[:4])}
    return summary


def _bytes(value: bytes, is_whole: bool) -> dict[str, Any]:
    line: dict[str, Any] = {"bytes": len(value)}
    text = _text(value)
    if text is not None:
        line["text"] = text
    elif is_whole:
        line["base64"] = base64.b64encode(value).decode()
    return line


def _text(value: bytes) -> str | None:
    """Returns the text that bytes are; None: they are none, or long."""
    if len(value) > _MOST_TEXT:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter.isspace() for letter in text) else None
