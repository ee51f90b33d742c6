"""Converts JSON to arrays, strictly: the requested element type, and rows of equal length."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import refuse, shorten
from modelflow.wire.tensor import MOST_AXES, datatype_of

_FEW = 64  # the most values for which Python is quicker than NumPy's calls
_NUMBERS = frozenset({int, float})
_WHITE = str.maketrans("", "", " \t\n\v\f\r")
_ENDS = {size: float(np.finfo(f"f{size}").max) for size in (2, 4, 8)}


def array_of(
    value: Any, dtype: np.dtype[Any] | None, where: str, *, takes_b64: bool = True
) -> npt.NDArray[Any]:
    """Converts a JSON value to an array; nested lists become its axes.

    An integer is converted if a float is requested. Nothing else is converted. Text becomes its
    UTF-8 bytes.

    Args:
        value: A number, a text, a boolean, ``{"b64": ...}``, lists of them, or an array from
            `read_json`.
        dtype: The requested element type, ``object`` for bytes. None for the type of the values
            (int64, float64, bool, or bytes).
        where: The place of the value, for messages: ``input 'image'``.
        takes_b64: Whether ``{"b64": "<base64>"}`` means bytes.

    Returns:
        An array of ``dtype`` in the value's shape. It is read-only, or the caller is its only user.

    Raises:
        Problem: Rows differ in length, or a value has another type or is out of the type's range.
    """
    if dtype is not None and dtype.kind == "V":  # bfloat16, which is no type of NumPy's own
        return array_of(value, np.dtype(np.float32), where, takes_b64=takes_b64).astype(dtype)
    if isinstance(value, np.ndarray):
        return _of_numbers(value, dtype or value.dtype, where)
    shape, leaves, kinds = _flatten(value, where)
    wanted = _kind_of(leaves, kinds) if dtype is None else dtype
    flat = _READERS[wanted.kind](leaves, kinds, wanted, where, takes_b64)
    return flat.reshape(shape)


def is_b64(value: Any) -> bool:
    """Returns True for the JSON value ``{"b64": "..."}``, which means bytes."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def json_type(value: Any) -> str:
    """Returns the JSON type of a value, for messages: ``list``, ``text``, ``true or false``."""
    return _JSON_TYPES.get(type(value), "list")


def _flatten(value: Any, where: str) -> tuple[tuple[int, ...], list[Any], set[type]]:
    """Returns the shape of nested lists, the innermost values in a row, and their types.

    Works level by level, so only C code visits each row.
    """
    if type(value) is not list:
        return (), [value], {type(value)}
    shape = [len(value)]
    level = value
    while list in (kinds := set(map(type, level))):
        if len(kinds) > 1:
            at = next(at for at, row in enumerate(level) if type(row) is not type(level[0]))
            refuse(
                f"{where}: a list and a single value side by side{_row(at, shape)}; "
                "all rows must be of one shape"
            )
        length = len(level[0])
        if len(level) > 1 and len(set(map(len, level))) > 1:
            at = next(at for at, row in enumerate(level) if len(row) != length)
            refuse(
                f"{where}: {len(level[at])} values{_row(at, shape)}; expected {length}, "
                "as in the rows before"
            )
        shape.append(length)
        if len(shape) > MOST_AXES:
            refuse(f"{where}: lists nested over {MOST_AXES} deep; a tensor has fewer axes")
        level = level[0] if len(level) == 1 else list(chain.from_iterable(level))
    return tuple(shape), level, kinds


def _row(at: int, shape: Sequence[int]) -> str:
    """Returns the place of an element in a shape: `` at [0][3]``."""
    place = np.unravel_index(at, tuple(shape))
    return " at " + "".join(f"[{index}]" for index in place)


def _kind_of(leaves: list[Any], kinds: set[type]) -> np.dtype[Any]:
    """Returns the element type of values for which no type is requested."""
    if kinds and kinds <= {int}:
        return np.dtype(np.uint64 if max(leaves) > np.iinfo(np.int64).max else np.int64)
    if kinds <= {int, float}:
        return np.dtype(np.float64)
    return np.dtype(np.bool_) if kinds == {bool} else np.dtype(np.object_)


def _whole(
    leaves: list[Any], kinds: set[type], dtype: np.dtype[Any], where: str, _: bool
) -> npt.NDArray[Any]:
    """Converts integers or booleans; a boolean is no integer here."""
    _demand({bool if dtype.kind == "b" else int}, leaves, kinds, dtype, where)
    if leaves and dtype.kind != "b":
        _demand_range(min(leaves), max(leaves), dtype, where)
    return np.asarray(leaves, dtype)


def _floats(
    leaves: list[Any], kinds: set[type], dtype: np.dtype[Any], where: str, _: bool
) -> npt.NDArray[Any]:
    if not kinds <= _NUMBERS:
        _demand(_NUMBERS, leaves, kinds, dtype, where)
    if 0 < len(leaves) <= _FEW:
        # Quicker than a check with NumPy afterwards. A NaN as first value fails both comparisons. A
        # NaN at another place is neither the least nor the largest value.
        end = _ENDS[dtype.itemsize]
        if min(leaves) >= -end and max(leaves) <= end:
            return np.asarray(leaves, dtype)
    try:
        return _round(np.asarray(leaves, np.float64), dtype, where)
    except OverflowError as error:
        refuse(f"{where}: an integer that is out of range of {datatype_of(dtype)}", cause=error)


def _bytes(
    leaves: list[Any], kinds: set[type], dtype: np.dtype[Any], where: str, takes_b64: bool
) -> npt.NDArray[Any]:
    _demand({str, dict} if takes_b64 else {str}, leaves, kinds, dtype, where)
    array = np.empty(len(leaves), np.object_)
    array[:] = [leaf.encode() if type(leaf) is str else _from_b64(leaf, where) for leaf in leaves]
    return array


_Reader = Callable[[list[Any], set[type], "np.dtype[Any]", str, bool], "npt.NDArray[Any]"]
_READERS: Mapping[str, _Reader] = MappingProxyType(
    {"b": _whole, "i": _whole, "u": _whole, "f": _floats, "O": _bytes}
)


def _of_numbers(array: npt.NDArray[Any], dtype: np.dtype[Any], where: str) -> npt.NDArray[Any]:
    """Converts numbers that a parser has already put into an array."""
    if array.dtype == dtype or not array.size:
        return array.astype(dtype, copy=False)
    if dtype.kind == "f":
        return _round(array, dtype, where)
    if dtype.kind not in "iu" or array.dtype.kind == "f":
        _demand(set(), [array.flat[0].item()], {object}, dtype, where)
    _demand_range(int(array.min()), int(array.max()), dtype, where)
    return array.astype(dtype)


def _round(array: npt.NDArray[Any], dtype: np.dtype[Any], where: str) -> npt.NDArray[Any]:
    """Rounds numbers to floats of fewer digits, and refuses finite numbers that become infinite."""
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype, copy=False)
    if dtype.itemsize < array.dtype.itemsize and not np.isfinite(rounded).all():
        lost = np.isfinite(array) & ~np.isfinite(rounded)
        if lost.any():
            refuse(
                f"{where}: {array[lost].flat[0]} is out of range of {datatype_of(dtype)}, which "
                f"ends at {np.finfo(dtype).max}"
            )
    return rounded


def _demand(
    allowed: Set[type], leaves: list[Any], kinds: set[type], dtype: np.dtype[Any], where: str
) -> None:
    if kinds <= allowed:
        return
    at, leaf = next((at, leaf) for at, leaf in enumerate(leaves) if type(leaf) not in allowed)
    refuse(
        f"{where}: {shorten(leaf)} (value {at}) is {json_type(leaf)}; expected "
        f"{_EXPECTED[dtype.kind]} for {datatype_of(dtype)}"
    )


def _demand_range(least: int, most: int, dtype: np.dtype[Any], where: str) -> None:
    info = np.iinfo(dtype)
    if least < info.min or most > info.max:
        refuse(
            f"{where}: {least if least < info.min else most} is out of range of "
            f"{datatype_of(dtype)}; expected {info.min} to {info.max}"
        )


def _from_b64(value: Any, where: str) -> bytes:
    if not is_b64(value):
        refuse(
            f"{where}: JSON Value: {shorten(value)} not formatted correctly for base64 data; "
            'expected {"b64": "..."}'
        )
    text = value["b64"]
    try:
        return _decode(text)
    except ValueError:  # white space is skipped, as TensorFlow Serving does
        text = text.translate(_WHITE)
    try:
        return _decode(text)
    except (binascii.Error, ValueError) as error:  # ValueError: characters beyond ASCII
        refuse(f"{where}: Unable to base64 decode {shorten(value['b64'])}: {error}", cause=error)


def _decode(text: str) -> bytes:
    """Decodes base64 with or without padding; raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


_JSON_TYPES: Mapping[type, str] = MappingProxyType(
    {
        bool: "true or false",
        int: "an integer",
        float: "a number with a fraction",
        str: "a text",
        dict: "an object",
        type(None): "null",
    }
)
_EXPECTED: Mapping[str, str] = MappingProxyType(
    {"b": "true or false", "i": "an integer", "u": "an integer", "f": "a number", "O": "a text"}
)
