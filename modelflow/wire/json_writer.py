"""Writes JSON documents with arrays, and floats in the form of TensorFlow Serving.

A float has the fewest digits that identify it, with ``.0`` or an exponent: ``0.1``, ``3.0``,
``1e-7``. ``NaN``, ``Infinity`` and ``-Infinity`` are written as these words.
"""

import base64
import json
import math
import secrets
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.files.json_value import number_lists
from modelflow.wire.problem import Code, refuse, sendable

try:
    import orjson
except ImportError:  # an extra: `json` does the same, slowly
    orjson = None

# A placeholder for an array in a line. It is random, so no text of a user equals it.
_MARK = secrets.token_hex(16)
_LEAST_WITHOUT_EXPONENT = 1e-4  # as Python writes floats


def json_of(value: Any, *, is_plain: bool = False) -> bytes:
    """Writes a value as JSON: numbers, texts, lists, objects, bytes (UTF-8) and arrays.

    Args:
        value: The value.
        is_plain: Whether the value is known to contain only text, finite numbers, booleans and
            null. This is not checked.

    Raises:
        Problem: A part of the value has no form in JSON.
    """
    if orjson is not None and type(value) in _HOLDERS and (is_plain or _is_plain((value,))):
        try:
            text: bytes = orjson.dumps(value)
        except TypeError:
            pass  # for example a number that is too long: written below
        else:
            return text
    if isinstance(value, dict):
        pairs = (_scalar(str(name)) + b":" + json_of(held) for name, held in value.items())
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(map(json_of, value)) + b"]"
    if isinstance(value, (np.ndarray, np.generic)):
        return array_json(np.asarray(value))
    return _scalar(value)


_PLAIN = frozenset({str, int, bool, type(None)})
_HOLDERS = frozenset({list, tuple, dict})


def _is_plain(values: Iterable[Any]) -> bool:
    """Returns True if orjson writes all values in the form of this module."""
    for value in values:
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            continue
        if kind not in _HOLDERS or not _is_plain(value.values() if kind is dict else value):
            return False
    return True


def json_line(value: Any) -> str:
    """Writes a line of results as JSON with blanks, like Python's ``json``; NaN becomes ``null``.

    Args:
        value: A result of `shown`: JSON values and arrays of numbers.
    """
    arrays: list[npt.NDArray[Any]] = []

    def mark(array: npt.NDArray[Any]) -> str:
        arrays.append(array)
        return _MARK

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=mark)
    except ValueError:  # a number that is not finite
        arrays.clear()
        text = json.dumps(_without_nan(value), ensure_ascii=False, default=mark)
    first, *parts = text.split(f'"{_MARK}"')
    pairs = zip(map(_array_line, arrays), parts, strict=True)
    return sendable("".join([first, *chain.from_iterable(pairs)]))


def array_json(array: npt.NDArray[Any], where: str = "answer") -> bytes:
    """Writes an array as nested lists, and an array without axes as a single value.

    Args:
        array: Numbers, booleans, or objects. Bytes and texts are written as texts.
        where: The name of the array, for messages.

    Raises:
        Problem: Bytes are no UTF-8, or an object has no form in JSON.
    """
    if array.dtype.kind in "OSUT":
        return json_of(_texts(array, where).tolist())
    if array.dtype.kind == "V":  # bfloat16, which is no type of NumPy's own
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        refuse(
            f"{where}: arrays of {array.dtype.name} have no form in JSON; ask for binary",
            Code.FAILED_PRECONDITION,
        )
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if not array.ndim:
        return array_json(array.reshape(1), where)[1:-1]
    array = np.ascontiguousarray(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if orjson is None or array.dtype == np.float16:  # orjson writes it with the digits of a float32
        return json.dumps(number_lists(array), separators=(",", ":")).encode()
    text: bytes = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    return _with_words(text, array) if b"n" in text else text  # only "null" contains an n


def row_texts(array: npt.NDArray[Any]) -> list[bytes]:
    """Writes each row of an array like `array_json`, without the outer brackets.

    For ``[[1, 2], [3, 4]]`` the rows are ``1,2`` and ``3,4``. For ``[1, 2]`` they are ``1`` and
    ``2``.

    Args:
        array: Numbers, at least one, in the shape ``(rows, ...)``.
    """
    # Written at once, and cut between the rows at "],[".
    between = b"]" * (array.ndim - 1) + b"," + b"[" * (array.ndim - 1)
    return array_json(array)[array.ndim : -array.ndim].split(between)


def b64(data: bytes) -> dict[str, str]:
    """Returns bytes as ``{"b64": ...}``."""
    return {"b64": base64.b64encode(data).decode("ascii")}


def text_of(data: Any, where: str) -> Any:
    """Decodes bytes from UTF-8, and returns any other value unchanged.

    Raises:
        Problem: The bytes are no UTF-8.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        return data
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        refuse(
            f"{where}: bytes that are no text (byte {data[error.start]:#x} at {error.start}); JSON "
            "carries text: ask for binary, or give the output a name ending in _bytes",
            Code.FAILED_PRECONDITION,
            cause=error,
        )


def _array_line(array: npt.NDArray[Any]) -> str:
    text = array_json(array)
    if array.dtype.kind == "f":
        sizes = np.abs(array)
        if b"e" in text or ((sizes < _LEAST_WITHOUT_EXPONENT) & (sizes != 0)).any():
            text = json.dumps(json.loads(text)).encode()  # orjson writes 1e-7, Python 1e-07
        if not np.isfinite(array).all():
            for word in (b"-Infinity", b"Infinity", b"NaN"):
                text = text.replace(word, b"null")
    return (text if b", " in text else text.replace(b",", b", ")).decode()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_without_nan(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _texts(array: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    texts = np.empty(array.size, np.object_)
    texts[:] = [text_of(item, where) for item in array.ravel().tolist()]
    return texts.reshape(array.shape)


def _with_words(text: bytes, array: npt.NDArray[Any]) -> bytes:
    """Replaces each "null" by the word for the number that is not finite."""
    lost = array[~np.isfinite(array)]
    words = np.where(np.isnan(lost), b"NaN", np.where(lost > 0, b"Infinity", b"-Infinity")).tolist()
    between = text.split(b"null")
    return b"".join(chain.from_iterable(zip(between, [*words, b""], strict=True)))


def _scalar(value: Any) -> bytes:
    if isinstance(value, float) and not np.isfinite(value):
        return json.dumps(value).encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = text_of(value, "answer")
    try:
        is_long = isinstance(value, int) and value.bit_length() > 63  # too long for orjson
        if orjson is not None and not is_long:
            text: bytes = orjson.dumps(value)
            return text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        refuse(
            f"answer: a {type(value).__name__} has no form in JSON: {error}",
            Code.INTERNAL,
            cause=error,
        )
