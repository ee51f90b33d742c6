"""`Buffer`, `BufferList` and `Device`: ModelBox's view of modelflow's."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.device import CPU
from modelflow.device import Device as NativeDevice
from modelflow.errors import FlowUnitError
from modelflow.http.reply import PAYLOAD_MARKS, TEXT


class Device:
    """Where a unit runs."""

    def __init__(self, native: NativeDevice = CPU) -> None:
        self._native = native

    def get_device_id(self) -> str:
        """Returns the number, as text."""
        return str(self._native.index)

    def get_type(self) -> str:
        """Returns the kind: ``cpu``, ``cuda``."""
        return self._native.kind

    def get_device_desc(self) -> str:
        """Returns kind and number."""
        return str(self._native)


class ModelBoxDataType(IntEnum):
    """Element types."""

    UINT8 = 0
    INT8 = 1
    BOOL = 2
    INT16 = 3
    UINT16 = 4
    INT32 = 5
    UINT32 = 6
    INT64 = 7
    UINT64 = 8
    FLOAT = 9
    DOUBLE = 10
    HALF = 11


_DTYPES = {
    "uint8": ModelBoxDataType.UINT8,
    "int8": ModelBoxDataType.INT8,
    "bool": ModelBoxDataType.BOOL,
    "int16": ModelBoxDataType.INT16,
    "uint16": ModelBoxDataType.UINT16,
    "int32": ModelBoxDataType.INT32,
    "uint32": ModelBoxDataType.UINT32,
    "int64": ModelBoxDataType.INT64,
    "uint64": ModelBoxDataType.UINT64,
    "float32": ModelBoxDataType.FLOAT,
    "float64": ModelBoxDataType.DOUBLE,
    "float16": ModelBoxDataType.HALF,
}

_NO_DEFAULT: Any = object()


class CodedError(FlowUnitError):
    """An error with the code and the message that a unit gave itself."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, unit=code.partition(".")[0])
        self._code = code

    @property
    def code(self) -> str:
        """The code, ``Unit.Error``."""
        return self._code


class Buffer(NativeBuffer):
    """One item: payload and meta, or an error.

    ``Buffer(device)`` is empty, ``Buffer(device, value)`` holds an array, bytes, a text or a list
    of arrays, ``Buffer(buffer)`` shares the payload of another and copies its meta.

    Into the graph goes a `header` of it, never itself: modelflow's units expect of `get` and
    `as_object` what modelflow's own `Buffer` does.
    """

    ModelBoxDataType: ClassVar = ModelBoxDataType

    def __init__(self, device: "Device | NativeBuffer | None" = None, data: Any = None) -> None:
        super().__init__()
        if isinstance(device, NativeBuffer):
            self.adopt(device)
        elif data is not None:
            self.build(data)

    def adopt(self, other: NativeBuffer) -> None:
        """Becomes what another buffer is: its payload is shared, its meta copied."""
        self.data, self.error = other.data, other.error
        self._meta = None
        self.inherit_meta(other)

    def build(self, data: Any) -> None:
        """Replaces the payload.

        Args:
            data: A text; an array, bytes, or another object with the buffer protocol; or a list of
                arrays, which are put one behind the other.

        Raises:
            RuntimeError: an array without dimensions, of texts or of complex numbers.
        """
        if isinstance(data, str):
            self.data = data
            return
        if isinstance(data, list | tuple):
            arrays = [np.asarray(item) for item in data]
            shapes = [list(array.shape) for array in arrays]
            whole = np.concatenate([array.reshape(-1) for array in arrays])
            self._set_array(whole, shapes)
            return
        if isinstance(data, bytes | bytearray | memoryview):
            self.data = bytes(data)
            return
        array = np.asarray(data)
        if array.ndim == 0:
            message = "got an array without dimensions; expected one at least"
            raise RuntimeError(message)
        self._set_array(array, list(array.shape))

    def _set_array(self, array: npt.NDArray[Any], shape: list[Any]) -> None:
        if array.dtype.name not in _DTYPES:
            message = f"got an array of {array.dtype}; expected one of {', '.join(_DTYPES)}"
            raise RuntimeError(message)
        self.data = array
        if shape != list(array.shape):  # of several arrays
            self.meta["shape"] = shape

    # -- payload --------------------------------------------------------------------------------

    def as_object(self) -> Any:
        """Returns the payload: a text as it is, anything else as a fresh array of one dimension.

        What an HTTP request brought is a text where it can be read as one.
        """
        data = self.data
        if isinstance(data, str):
            return data
        if isinstance(data, bytes) and TEXT in self.meta:
            with contextlib.suppress(UnicodeDecodeError):  # no text: an image, say
                return data.decode()
        if isinstance(data, bytes | bytearray | memoryview):
            return np.frombuffer(data, np.uint8).copy()
        if isinstance(data, np.ndarray):
            return data.reshape(-1).copy()
        return data

    def as_bytes(self) -> bytes:
        """Returns the payload as bytes."""
        return b"" if self.data is None else super().__bytes__()

    def get_bytes(self) -> int:
        """Returns the size of the payload in bytes; 0 where it is an error."""
        return 0 if self.has_error() else len(self.as_bytes())

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        data = self.data
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes | bytearray | memoryview):
            data = np.frombuffer(data, np.uint8)
        array = np.asarray(data)
        shape = self.meta.get("shape")
        if shape is not None and _fits(shape, array) and not isinstance(shape[0], list):
            array = array.reshape(shape)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __bytes__(self) -> bytes:
        return self.as_bytes()

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.as_bytes())

    def __str__(self) -> str:
        return self.data if isinstance(self.data, str) else self.as_bytes().decode()

    # -- meta -----------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> None:
        """Stores a meta value: numbers, texts, lists, arrays (copied), any object.

        Raises:
            RuntimeError: an integer of more than 64 bits, or a list of mixed types.
        """
        super().set(key, _meta_value(value))

    def get(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """Returns a meta value, or ``default`` where one is given.

        Raises:
            ValueError: there is none; the message names those that are there.
        """
        meta, data = self.meta, self.data
        if isinstance(data, bytes):
            data = np.frombuffer(data, np.uint8)
        if isinstance(data, np.ndarray) and key in ("shape", "type"):
            # Of the payload itself: meta may have come along with another one.
            if key == "type":
                return _DTYPES.get(data.dtype.name)
            return meta[key] if _fits(meta.get(key), data) else list(data.shape)
        told = self.all_meta()
        if key in told:
            return told[key]
        if default is not _NO_DEFAULT:
            return default
        message = f"no meta {key!r} (there are: {', '.join(told) or 'none'})"
        raise ValueError(message)

    def copy_meta(self, other: NativeBuffer) -> None:
        """Takes over the meta of ``other``; what is there already stays."""
        for key, value in other.all_meta().items():
            if key not in PAYLOAD_MARKS:  # said of the other's payload
                self.meta.setdefault(key, value)

    # -- errors ---------------------------------------------------------------------------------

    def set_error(self, code: str, message: str) -> None:
        """Makes it an error; the payload goes."""
        self.data, self.error = None, CodedError(code, message)

    def get_error_msg(self) -> str:
        """Returns what the unit said: of a status its message, else all of modelflow's error."""
        return "" if self.error is None else _message(self.error)


def _message(error: FlowUnitError) -> str:
    status = getattr(error.__cause__, "status", None)
    if status is not None:
        return str(status.errormsg())
    return error.message if isinstance(error, CodedError) else str(error)


def _fits(shape: Any, array: npt.NDArray[Any]) -> bool:
    """Tells whether a shape, or a list of shapes, says how ``array`` is cut."""
    if not isinstance(shape, list) or not shape:
        return False
    shapes = shape if isinstance(shape[0], list) else [shape]
    return sum(math.prod(part) for part in shapes) == array.size


def header(native: NativeBuffer) -> NativeBuffer:
    """Returns a native buffer with the same payload and a meta of its own."""
    copied = NativeBuffer(native.data)
    copied.error = native.error
    copied.inherit_meta(native)
    return copied


def outgoing(buffer: Buffer) -> NativeBuffer:
    """Returns what goes on into the graph: an array has the shape that its meta ``shape`` says."""
    native = header(buffer)
    shape, data = native.get("shape"), native.data
    if isinstance(data, np.ndarray) and _fits(shape, data) and not isinstance(shape[0], list):
        native.data = data.reshape(shape)
    return native


def _meta_value(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, float):
        return np.array(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(bytes(value), np.uint8)
    if isinstance(value, list) and value:
        return _list_value(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        message = f"got {value}; expected an integer of 64 bits"
        raise RuntimeError(message)
    return float(value) if isinstance(value, float) else value


def _list_value(values: list[Any]) -> list[Any]:
    first = values[0]
    if isinstance(first, list):
        return [_list_value(item) if item else [] for item in values]
    for kind in (bool, str, float, int):
        if isinstance(first, kind):
            allowed = (int, float) if kind is float else (kind,)
            if not all(isinstance(item, allowed) for item in values):
                message = f"got the list {values!r}; expected items of one type"
                raise RuntimeError(message)
            return [kind(item) for item in values]
    return list(values)


class BufferList:
    """The buffers of one port."""

    def __init__(self, source: "Device | Buffer | Sequence[Buffer] | None" = None) -> None:
        self._device = source if isinstance(source, Device) else Device()
        self._buffers: list[Buffer] = []
        if isinstance(source, Buffer):
            self.push_back(source)
        elif isinstance(source, list | tuple):
            for buffer in source:
                self.push_back(buffer)

    @classmethod
    def of(cls, natives: Sequence[NativeBuffer], device: Device) -> Self:
        """Returns the list of native buffers."""
        found = cls(device)
        found._buffers = [Buffer(native) for native in natives]
        return found

    def build(self, sizes: Sequence[int]) -> None:
        """Replaces the buffers by new ones of so many bytes, filled with zeros."""
        self._buffers = [Buffer(self._device, np.zeros(size, np.uint8)) for size in sizes]

    def size(self) -> int:
        """Returns how many buffers there are."""
        return len(self._buffers)

    def push_back(self, value: Any) -> None:
        """Adds a buffer (its header is copied), an array, or a text."""
        self._buffers.append(
            Buffer(value) if isinstance(value, Buffer) else Buffer(self._device, value)
        )

    def front(self) -> Buffer | None:
        """Returns the first buffer, or None."""
        return self[0]

    def back(self) -> Buffer | None:
        """Returns the last buffer, or None."""
        return self[len(self) - 1]

    def set(self, key: str, value: Any) -> None:
        """Stores a meta value in every buffer."""
        for buffer in self._buffers:
            buffer.set(key, value)

    def set_error(self, code: str, message: str) -> None:
        """Makes every buffer an error."""
        for buffer in self._buffers:
            buffer.set_error(code, message)

    def copy_meta(self, other: "BufferList", is_override: bool = False) -> None:
        """Takes over the meta of the buffers of ``other``, one by one."""
        for mine, theirs in zip(self._buffers, other._buffers, strict=False):
            if is_override:
                for key, value in theirs.all_meta().items():
                    if key not in PAYLOAD_MARKS:
                        mine.meta[key] = value
            mine.copy_meta(theirs)

    def get_bytes(self) -> int:
        """Returns the size of all payloads in bytes."""
        return sum(buffer.get_bytes() for buffer in self._buffers)

    def get_device(self) -> Device:
        """Returns the device."""
        return self._device

    def natives(self) -> list[NativeBuffer]:
        """Returns copies of the native headers, as they go on into the graph."""
        return [outgoing(buffer) for buffer in self._buffers]

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._buffers)

    def __getitem__(self, place: int) -> Buffer | None:
        return self._buffers[place] if 0 <= place < len(self._buffers) else None
