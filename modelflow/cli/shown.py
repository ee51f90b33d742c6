"""Values as JSON lines show them: small ones whole, large ones in short or, on request, whole."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from modelflow.number_lists import number_lists

__all__ = ["is_in_short", "json_text", "shown", "text_of"]

# Arrays of so many values, and texts of so many bytes, are whole in any case.
_MOST_VALUES = 4096
_MOST_TEXT = 1 << 16


def shown(value: Any, *, is_whole: bool = False) -> Any:
    """Returns a value as JSON can hold it.

    Args:
        value: Any value.
        is_whole: Large arrays as lists, bytes in base64.
    """
    found: Any = value
    match value:
        case np.ndarray():
            found = _array(value, is_whole)
        case np.generic():
            found = shown(number_lists(value), is_whole=is_whole)
        case bytes() | bytearray() | memoryview():
            found = _bytes(bytes(value), is_whole)
        case Mapping():
            found = {str(key): shown(item, is_whole=is_whole) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):  # a box, as HTTP replies write it
            found = shown(value._asdict(), is_whole=is_whole)
        case list() | tuple():
            found = [shown(item, is_whole=is_whole) for item in value]
        case float():
            found = value if math.isfinite(value) else None  # JSON has no word for the others
        case str() | int() | None:
            pass
        case _:
            found = repr(value)
    return found


def json_text(value: Any) -> str:
    """Returns what `shown` has returned as JSON on one line."""
    return text_of(json.dumps(value, ensure_ascii=False, allow_nan=False))


def text_of(text: str) -> str:
    """Returns a text that UTF-8 can hold: half a letter stands as ``\\udcff``.

    Names of files that are not UTF-8 have such; in JSON it is the same text.
    """
    return text.encode(errors="backslashreplace").decode()


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


def _array(array: np.ndarray[Any, Any], is_whole: bool) -> Any:
    if is_whole or array.size <= _MOST_VALUES:
        return shown(number_lists(array), is_whole=is_whole)
    summary: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind in "iufb":
        summary |= {"min": shown(array.min()), "max": shown(array.max())}
        summary |= {"first": shown(array.reshape(-1)[:4])}
    return summary
