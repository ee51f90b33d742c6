"""Frames between two processes: messages and the arrays in them, sent in a single write.

A frame has a head, the messages as JSON, and the bytes of small arrays. Large arrays are in the
shared memory while it has room. Nothing is pickled. The reader gets each value unchanged, or in the
form that JSON gives it.

Values in a message have these forms:

- an array: ``[type, shape, where, is shared]``
- bytes: ``["b", where, is shared, length]``
- an array of bytes: ``["B", shape, where, is shared, lengths]``
- any other value: ``["v", where, length]``, a JSON text. In this text, ``{"$a": ...}`` and other
  marks represent values that JSON cannot.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from modelflow.files.json_value import json_value
from modelflow.ipc.shared_memory import SharedMemoryReader, SharedMemoryWriter

try:
    import orjson
except ImportError:  # an extra; `json` does the same, but slower
    orjson = None

Value: TypeAlias = list[Any]
"""The form of a value in a message."""

HEAD = struct.Struct("<II")
"""The head of a frame: the length of the messages, and the length of the bytes."""

_ALIGNMENT = 8  # the alignment of arrays for fast access
_SHARED = 8 << 10  # arrays of at least so many bytes go through the shared memory
_MAX_DEPTH = 64  # as `json_value`
_PLAIN = (str, bool, int, float)


class FrameWriter:
    """A writer of frames. For one thread."""

    def __init__(self, memory_writer: SharedMemoryWriter) -> None:
        """Stores the shared memory for large arrays."""
        self.memory_writer = memory_writer
        """The shared memory for large arrays."""
        self._messages: list[Any] = []
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, message: Sequence[Any]) -> None:
        """Adds a message of JSON values and results of `value`."""
        self._messages.append(message)

    def close(self) -> list[bytes]:
        """Returns the parts of the frame, and begins another frame. Empty without messages."""
        if not self._messages:
            return []
        text = _dump(self._messages)
        text += b" " * (-len(text) % _ALIGNMENT)
        found = [HEAD.pack(len(text), self._size) + text, *self._parts]
        self._messages, self._parts, self._size = [], [], 0
        return found

    def value(self, value: Any) -> Value:
        """Adds a value to the frame, and returns its form for a message.

        Raises:
            ValueError: the value cannot be sent.
        """
        if type(value) is np.ndarray:
            return self._array(value)
        if isinstance(value, bytes):
            return ["b", *self._bytes([value]), len(value)]
        text = json.dumps(self._tag(value, 0)).encode()
        return ["v", self._append(text), len(text)]

    def _array(self, array: npt.NDArray[Any]) -> Value:
        if array.dtype.hasobject:
            return self._objects(array)
        name = name_of(array.dtype)
        if array.nbytes >= _SHARED:
            where = self.memory_writer.put(array)
            if where is not None:
                return [name, array.shape, where, True]
        return [name, array.shape, self._append(array.tobytes()), False]

    def _objects(self, array: npt.NDArray[Any]) -> Value:
        items = array.ravel().tolist()
        if all(type(item) is bytes for item in items):
            return ["B", array.shape, *self._bytes(items), list(map(len, items))]
        tagged = {"$o": [array.shape, [self._tag(item, 1) for item in items]]}
        text = json.dumps(tagged).encode()
        return ["v", self._append(text), len(text)]

    def _bytes(self, parts: list[bytes]) -> tuple[int, bool]:
        size = sum(map(len, parts))
        if size >= _SHARED:
            where = self.memory_writer.put_bytes(parts, size)
            if where is not None:
                return where, True
        return self._append(b"".join(parts)), False

    def _append(self, part: bytes) -> int:
        where = self._size
        padding = -len(part) % _ALIGNMENT
        self._parts.append(part)
        if padding:
            self._parts.append(bytes(padding))
        self._size += len(part) + padding
        return where

    def _tag(self, value: Any, depth: int) -> Any:
        """Returns a value as JSON, with marks for values that JSON cannot represent."""
        if value is None or isinstance(value, _PLAIN):
            return value
        if isinstance(value, np.generic) and not isinstance(value, np.void):
            return {"$n": self._array(np.asarray(value))}
        if isinstance(value, np.ndarray):
            return {"$a": self._array(np.asarray(value))}
        if isinstance(value, bytes | bytearray | memoryview):
            return {"$b": self.value(bytes(value))}
        if depth >= _MAX_DEPTH:
            return json_value(value, depth)  # raises the right error
        return self._tag_many(value, depth + 1)

    def _tag_many(self, value: Any, depth: int) -> Any:
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            pairs = [[str(key), self._tag(held, depth)] for key, held in value.items()]
            if any(key.startswith("$") for key, _ in pairs):
                return {"$d": pairs}
            return dict(pairs)
        if isinstance(value, list):
            return [self._tag(held, depth) for held in value]
        if isinstance(value, tuple):
            return {"$t": [self._tag(held, depth) for held in value]}
        return json_value(value, depth)  # raises the right error


class FrameReader:
    """A reader of a frame. Its values stay valid, because array views keep their memory alive."""

    def __init__(self, parcel: bytes, start: int, memory_reader: SharedMemoryReader) -> None:
        """Reads the messages of the frame that begins at ``start``."""
        length, _ = HEAD.unpack_from(parcel, start)
        text = start + HEAD.size
        self.messages: list[Any] = _load(parcel[text : text + length])
        """The messages."""
        self._parcel = parcel
        self._bytes = text + length  # the start of the bytes
        self._memory_reader = memory_reader

    def value(self, value: Value) -> Any:
        """Returns the value for its form in a message."""
        kind = value[0]
        if kind == "v":
            _, where, length = value
            return self._revive(json.loads(self._read(where, length)))
        if kind == "b":
            _, where, is_shared, length = value
            return (
                self._memory_reader.read(where, length) if is_shared else self._read(where, length)
            )
        if kind == "B":
            return self._texts(*value[1:])
        name, shape, where, is_shared = value
        dtype = dtype_of(name)
        if is_shared:
            return self._memory_reader.show(where, dtype, tuple(shape))
        return np.ndarray(shape, dtype, self._parcel, self._bytes + where)

    def _texts(
        self, shape: list[int], where: int, is_shared: bool, lengths: list[int]
    ) -> npt.NDArray[Any]:
        size, at = sum(lengths), 0
        joined = self._memory_reader.read(where, size) if is_shared else self._read(where, size)
        found = np.empty(len(lengths), object)
        for place, length in enumerate(lengths):
            found[place] = joined[at : at + length]
            at += length
        return found.reshape(shape)

    def _read(self, where: int, length: int) -> bytes:
        start = self._bytes + where
        return self._parcel[start : start + length]

    def _revive(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._revive(held) for held in value]
        if not isinstance(value, dict):
            return value
        mark, held = next(iter(value.items()), ("", None))
        if mark.startswith("$"):
            return self._mark(mark, held)
        return {key: self._revive(one) for key, one in value.items()}

    def _mark(self, mark: str, held: Any) -> Any:
        match mark:
            case "$n":
                return self.value(held)[()]
            case "$t":
                return tuple(self._revive(one) for one in held)
            case "$d":
                return {key: self._revive(one) for key, one in held}
            case "$o":
                shape, items = held
                found = np.empty(len(items), object)
                for place, one in enumerate(items):
                    found[place] = self._revive(one)
                return found.reshape(shape)
        return self.value(held)  # an array, or bytes


def _dump(messages: list[Any]) -> bytes:
    if orjson is None:
        return json.dumps(messages).encode()
    text: bytes = orjson.dumps(messages)
    return text


def _load(text: bytes) -> list[Any]:
    found: list[Any] = json.loads(text) if orjson is None else orjson.loads(text)
    return found


@lru_cache
def name_of(dtype: np.dtype[Any]) -> str:
    """Returns the name of an element type.

    Raises:
        ValueError: the element type has no name.
    """
    for name in (dtype.str, dtype.name):
        try:
            if np.dtype(name) == dtype:
                return name
        except TypeError:
            continue
    raise ValueError(f"got an array of {dtype}; expected numbers, texts or bytes")


@lru_cache
def dtype_of(name: str) -> np.dtype[Any]:
    """Returns the element type with a name."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - adds bfloat16 and similar types to NumPy

        return np.dtype(name)
