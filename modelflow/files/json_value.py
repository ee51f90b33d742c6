"""Converts values to JSON: boxes to mappings, arrays to lists, bytes to their text.

``[Box(1, 2, 3, 4, 0.9, 0, "cat")]`` becomes ``[{"x": 1, "y": 2, ..., "label": "cat"}]``.
"""

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

_MAX_DEPTH = 64
_PLAIN = frozenset({str, bool, int, float, type(None)})
# Limits of the short form: arrays up to so many values, and texts up to so many bytes, are whole.
_MOST_VALUES = 4096
_MOST_TEXT = 1 << 16


def number_lists(array: "npt.NDArray[Any] | np.generic") -> Any:
    """Returns an array as nested lists, where each float has the fewest unambiguous digits.

    ``np.float32(0.1)`` becomes ``0.1``, but its own ``tolist()`` returns ``0.10000000149011612``.

    Args:
        array: An array of any type. Without axes, or for a NumPy scalar, the result is one value.
    """
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.str_).astype(np.float64)
    elif array.dtype.char in "gG":  # longer than Python's floats
        array = array.astype(np.float64 if array.dtype.char == "g" else np.complex128)
    return array.tolist()


def json_value(value: Any, depth: int = 0) -> Any:
    """Returns a value as JSON values.

    Args:
        value: Numbers, texts, bytes, arrays, lists, mappings, named tuples, or nested values of
            these.
        depth: The depth of the value in a larger value.

    Raises:
        ValueError: the value contains another type or bytes that are no UTF-8, or is nested too
            deeply.
    """
    return _convert(value, _strict, depth)


def show_value(value: Any, *, is_whole: bool = False) -> Any:
    """Returns a value as in a line of results, for `json_line`.

    Args:
        value: Any value.
        is_whole: Whether to keep large arrays, and to write bytes in base64.

    Raises:
        ValueError: the value is nested too deeply.
    """
    return _convert(value, partial(_in_short, is_whole), 0)


def is_in_short(value: Any) -> bool:
    """Tells whether the short form of a value leaves parts out."""
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
    # `isinstance` of the abstract class Mapping costs much more than the rest.
    if type(value) in _PLAIN or isinstance(value, str | bool | int | float):
        return value
    if type(value) is not dict and not isinstance(value, list | tuple | Mapping):
        return leaf(value, depth)
    if depth >= _MAX_DEPTH:
        raise ValueError(f"got data nested deeper than {_MAX_DEPTH}; expected less for JSON")
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list | tuple):
        return [_convert(held, leaf, depth + 1) for held in value]
    return {str(key): _convert(held, leaf, depth + 1) for key, held in value.items()}


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
            return value  # written by `json_line`
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
    """Returns bytes as text, or None if they are long or no printable text."""
    if len(value) > _MOST_TEXT:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter.isspace() for letter in text) else None
