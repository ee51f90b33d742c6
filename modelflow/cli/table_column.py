"""The column of results in Parquet: its type, and results as values of it."""

import contextlib
from typing import Any

import numpy as np

from modelflow.json_value import shown
from modelflow.wire.json_text import json_line

__all__ = ["Column", "column_of", "kind_of"]

# The kinds of arrays that become lists of Arrow without a detour.
_KINDS = "biuf"


class Column:
    """The column of the results: its type, and how a result becomes a value of it."""

    def __init__(self, type: Any, encoding: bytes) -> None:  # noqa: A002 - the format's word
        """Takes the type of Arrow, and what its bytes or texts are."""
        self.type = type
        self.encoding = encoding

    def value(self, pa: Any, data: Any) -> Any:
        """Returns a result as a value of the column.

        Raises:
            TypeError, ValueError: it is none.
        """
        if self.encoding == b"json":
            return json_line(shown(data, is_whole=True))
        if isinstance(data, np.ndarray) and data.ndim and data.dtype.kind in _KINDS:
            expected = _type_of(pa, data)
            if expected != self.type:
                message = f"expected {self.type}, got {expected}"
                raise TypeError(message)
            return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
        plain = data.tolist() if isinstance(data, np.ndarray) else _plain(data)
        if pa.types.is_list(self.type) and not isinstance(plain, list):
            message = "expected a list"
            raise TypeError(message)
        pa.array([plain], self.type)
        return plain

    def array(self, pa: Any, values: list[Any]) -> Any:
        """Returns values as a column."""
        kinds = {isinstance(value, np.ndarray) for value in values if value is not None}
        if kinds == {True, False}:  # arrays and lists
            return pa.concat_arrays([self.array(pa, [value]).cast(self.type) for value in values])
        if True not in kinds:
            return pa.array(values, self.type)
        given = [np.ascontiguousarray(value) for value in values if value is not None]
        found = pa.array(np.concatenate([value.reshape(-1) for value in given]))
        for axis in range(given[0].ndim - 1, 0, -1):
            counts = [int(np.prod(value.shape[:axis])) for value in given]
            lengths = np.repeat([value.shape[axis] for value in given], counts)
            found = pa.ListArray.from_arrays(_offsets(lengths), found)
        lengths = np.array([0 if value is None else len(value) for value in values])
        mask = pa.array([value is None for value in values])
        return pa.ListArray.from_arrays(_offsets(lengths), found, mask=mask)


def _offsets(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def column_of(pa: Any, data: Any, encoding: bytes) -> Column:
    """Returns the column whose first value is a result.

    Args:
        pa: ``pyarrow``.
        data: The result.
        encoding: What a result in bytes is; empty: what it was given as.

    Raises:
        TypeError, ValueError, OverflowError, ArrowException: no column can hold it.
    """
    if isinstance(data, np.ndarray) and data.ndim and data.dtype.kind in _KINDS:
        return Column(_type_of(pa, data), b"")
    plain = _plain(data)
    if isinstance(plain, bytes):
        return Column(pa.binary(), encoding)
    if isinstance(plain, str | bool | int | float):
        return Column(pa.scalar(plain).type, b"")
    is_list = isinstance(plain, list) and bool(plain)
    if is_list and all(isinstance(one, str | int | float) for one in plain):
        with contextlib.suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
            return Column(pa.array([plain]).type, b"")
    return Column(pa.string(), b"json")


def _type_of(pa: Any, array: "np.ndarray[Any, Any]") -> Any:
    found = pa.from_numpy_dtype(array.dtype)
    for _ in range(array.ndim):
        found = pa.list_(found)
    return found


def _plain(data: Any) -> Any:
    if isinstance(data, np.ndarray | np.generic) and not getattr(data, "ndim", 0):
        return data.item()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return list(data)
    return data


def kind_of(data: Any) -> str:
    """Returns what a result is, for messages."""
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with {data.ndim} axes"
    return type(data).__name__
