"""Reads JSON into Python values, and large lists of numbers into arrays, within limits.

Three parsers share the work. `orjson` reads small documents, and `simdjson` (the package
pysimdjson) large ones. `json` reads texts that those two refuse and TensorFlow Serving takes:
``NaN``, ``Infinity``, and bytes after the document. If a package is missing, the next parser
replaces it.
"""

import json
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.json_outline import JsonLimits, check_limits, outline_of_text, outline_of_value
from modelflow.wire.problem import refuse

try:
    import orjson
except ImportError:  # an extra: `json` does the same, slowly
    orjson = None
try:
    import simdjson
except ImportError:  # an extra without wheels for the newest Python
    simdjson = None

# Below this size, one pass of orjson is quicker than simdjson with its outline (benchmarks:
# serving_speed).
_SMALL = 16 << 10
# The most names of an object that are looked up one by one.
_FEW = 64
# A parser keeps memory for the largest text that it has read, about fourteen bytes per byte.
_KEPT = 2 << 20


def read_json(
    body: bytes | memoryview, limits: JsonLimits | None = None, *, takes_rest: bool = False
) -> Any:
    """Parses a JSON document.

    Objects become ``dict``, and lists ``list``. In a large document a list of numbers, nested or
    not, may be an array instead, if its rows have equal lengths. The array has type int64 or uint64
    if all numbers are written as integers, else float64.

    Args:
        body: The text, UTF-8.
        limits: The limits of the text.
        takes_rest: Whether bytes after the document are ignored.

    Raises:
        Problem: The text is no JSON, or exceeds the limits. The message differs between parsers.
    """
    if not body:
        refuse("JSON Parse error: The document is empty")
    text = bytes(body)
    outline = check_limits(text, limits or _LIMITS)
    try:
        if simdjson is not None and len(text) >= _SMALL:
            return _read_large(text, outline)
        if orjson is not None:
            return orjson.loads(text)
    except (ValueError, RuntimeError):  # RuntimeError: nested too deep for simdjson
        pass
    return _read_any(text, takes_rest=takes_rest)


def is_json(text: bytes) -> bool:
    """Returns whether bytes are one JSON document, as defined by RFC 8259.

    ``NaN`` and bytes after the document make the result False.
    """
    try:
        if simdjson is not None and len(text) >= _SMALL:
            simdjson.Parser().parse(text)
        elif orjson is not None:
            orjson.loads(text)
        else:
            json.loads(text.decode(), parse_constant=_finite_word)
    except (ValueError, RuntimeError):  # RuntimeError: nested too deep
        return False
    return True


def _finite_word(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _read_any(body: bytes, *, takes_rest: bool = False) -> Any:
    """Reads a text that only `json` accepts, and raises the error for the client."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        # The bytes after the document may be anything. The document itself is text.
        if not takes_rest:
            refuse(
                f"JSON Parse error: bytes that are no UTF-8 at offset: {error.start}; to send a "
                'file, write it as {"b64": "..."} in JSON, or POST it to '
                "/v2/models/NAME/generate with its own Content-Type, such as image/jpeg",
                cause=error,
            )
        text = body[: error.start].decode()
    try:
        # The parser accepts no blanks before the document.
        value, end = _PATIENT.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
    except RecursionError as error:
        refuse("JSON Parse error: nested too deep", cause=error)
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        refuse(f"JSON Parse error: {error.msg} at offset: {offset}", cause=error)
    except ValueError as error:  # Python's limit of an integer's digits; a number over all limits
        refuse(f"JSON Parse error: {error}", cause=error)
    if not takes_rest and text[end:].strip(_BLANKS):
        offset = len(text[:end].encode())
        refuse(f"JSON Parse error: more text after the document at offset: {offset}")
    if "\\u" in text:
        _check_characters(value)
    return value


def _check_characters(value: Any) -> None:
    """Refuses lone surrogates, as the other parsers do: UTF-8 cannot represent half a character."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        refuse("JSON Parse error: half a character (a lone surrogate) in a text", cause=error)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"Number too big to be stored in double: {text}")
    return number


_BLANKS = " \t\r\n"
_LIMITS = JsonLimits()
_PATIENT = json.JSONDecoder(parse_float=_finite)
_local = threading.local()


def _read_large(body: bytes, outline: bytes | None) -> Any:
    # A parser must not be used again while a part of its document exists. After an error, a
    # traceback may hold such parts: then the parser is dropped, and the next call makes another.
    parser = _local.__dict__.pop("parser", None) or simdjson.Parser()
    value = _plain(parser.parse(body))
    if len(body) <= _KEPT:
        _local.parser = parser
    if _has_arrays(value) and outline_of_value(value) != (outline or outline_of_text(body)):
        # Rows of different lengths or depth, or a duplicate key: a parser without arrays reads it.
        return orjson.loads(body) if orjson is not None else _read_any(body)
    return value


def _plain(part: Any) -> Any:
    """Converts a part of simdjson's document to a value that does not depend on the document."""
    if isinstance(part, simdjson.Object):
        names = list(part)
        if len(names) > _FEW or len(set(names)) < len(names) or any("\0" in name for name in names):
            return part.as_dict()
        # One by one, because items() would make lists of the arrays. Each lookup begins at the
        # first name and ends a name at its first zero byte. Hence the exceptions above.
        return {name: _plain(part[name]) for name in names}
    if not isinstance(part, simdjson.Array):
        return part
    shape, leaf = _first_shape(part)
    if type(leaf) in (int, float):
        numbers = _numbers(part)
        if numbers is not None and numbers.size == np.prod(shape, dtype=object):
            return numbers.reshape(shape)
    if isinstance(leaf, simdjson.Object):
        return [_plain(held) for held in part]
    return part.as_list()


def _first_shape(array: Any) -> tuple[tuple[int, ...], Any]:
    """Returns the lengths along the first row of each axis, and the first value."""
    shape: list[int] = []
    while isinstance(array, simdjson.Array):
        shape.append(len(array))
        if not shape[-1]:
            return tuple(shape), None
        array = array[0]
    return tuple(shape), array


def _numbers(array: Any) -> npt.NDArray[Any] | None:
    """Returns all numbers of a list as a flat array, or None if the list has other values.

    Integers are tried first, because as floats they would lose their last digits.
    """
    for of_type, dtype in (("i", np.int64), ("u", np.uint64), ("d", np.float64)):
        try:
            return np.frombuffer(array.as_buffer(of_type=of_type), dtype)
        except (TypeError, ValueError):  # another type, or out of range of this type
            continue
    return None


def _has_arrays(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_arrays, value.values()))
    if isinstance(value, list):
        return any(
            isinstance(part, (np.ndarray, dict, list)) and _has_arrays(part) for part in value
        )
    return isinstance(value, np.ndarray)
