"""Converts JSON values to arrays without loss."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["array_of"]

# The kinds of values that a kind of array can hold. `array_of` checks the range separately.
_HELD = {"b": "b", "u": "ui", "i": "ui", "f": "uif"}
_NAMES = {"b": "true and false", "u": "whole numbers", "i": "whole numbers", "f": "numbers"}


def array_of(value: Any, dtype: np.dtype[Any], field: str) -> npt.NDArray[Any]:
    """Returns a number, or nested lists of equal lengths, as an array.

    Args:
        value: The value.
        dtype: The element type: bool, integers or floats.
        field: The path of the value in the document, for errors.

    Raises:
        ValueError: the value has another form, or numbers out of the range of the type.
    """
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:  # lists of unequal lengths
        raise ValueError(_unfit(f"{value!r:.80} ({error})", dtype, field)) from error
    if not array.size and array.dtype == np.float64:
        return array.astype(dtype)  # an empty list has no type of its own
    if array.dtype.kind not in _HELD[dtype.kind]:
        raise ValueError(_unfit(f"{value!r:.80}", dtype, field))
    if array.size and dtype.kind in "ui":
        limits = np.iinfo(dtype)
        for number in (int(array.min()), int(array.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(_unfit(str(number), dtype, field))
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if dtype.kind == "f" and np.isinf(made).sum() != np.isinf(array.astype(np.float64)).sum():
        raise ValueError(_unfit(f"{np.abs(array).max()}", dtype, field))
    return made


def _unfit(found: str, dtype: np.dtype[Any], field: str) -> str:
    return (
        f"in_data: field {field!r}: got {found}; expected {_NAMES[dtype.kind]} for an array of "
        f"{dtype}: one, or lists of equal lengths"
    )
