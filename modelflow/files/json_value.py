"""What JSON holds of a value: boxes as mappings, arrays as lists, bytes as the text that they are.

``[Box(1, 2, 3, 4, 0.9, 0, "cat")]`` becomes ``[{"x": 1, "y": 2, ..., "label": "cat"}]``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from modelflow.number_lists import number_lists

__all__ = ["json_value"]

_MAX_DEPTH = 64


def json_value(value: Any, depth: int = 0) -> Any:
    """Returns a value as what JSON knows.

    Args:
        value: Numbers, texts, bytes, arrays, lists, mappings, named tuples, and what is made of
            them.
        depth: How deep it lies in a larger one.

    Raises:
        ValueError: it holds something else, bytes that are no UTF-8, or is nested too deeply.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        held = number_lists(value)
        return json_value(held, depth) if value.dtype.hasobject else held
    if isinstance(value, bytes | bytearray | memoryview):
        return str(value, "utf-8")
    if depth >= _MAX_DEPTH:
        message = f"got data nested deeper than {_MAX_DEPTH}; expected less for JSON"
        raise ValueError(message)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): json_value(held, depth + 1) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(held, depth + 1) for held in value]
    message = f"got {type(value).__name__}; expected data that JSON can hold"
    raise ValueError(message)
