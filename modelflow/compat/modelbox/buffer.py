"""`Buffer`, `BufferList` and `Device`: ModelBox's interface to modelflow's classes."""

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
    """The device that a unit runs on."""

    def __init__(self, native: NativeDevice = CPU) -> None:
        self._native = native

    def get_device_id(self) -> str:
        """Returns the device number as text."""
        return str(self._native.index)

    def get_type(self) -> str:
        """Returns the kind: ``cpu``, ``cuda``."""
        return self._native.kind

    def get_device_desc(self) -> str:
        """Returns kind and number of the device."""
        return str(self._native)


ModelBoxDataType = IntEnum(
    "ModelBoxDataType",
    "UINT8 INT8 BOOL INT16 UINT16 INT32 UINT32 INT64 UINT64 FLOAT DOUBLE HALF",
    start=0,
)
"""The element types."""

_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "HALF": "float16"}
_DTYPES = {_NAMES.get(kind.name, kind.name.lower()): kind for kind in ModelBoxDataType}

_NO_DEFAULT: Any = object()


class CodedError(FlowUnitError):
    """An error with a code and a message from the unit."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, unit=code.partition(".")[0])
        self._code = code

    @property
    def code(self) -> str:
        """The code, ``Unit.Error``."""
        return self._code


class Buffer:
    """An item: payload and meta, or an error.

    ``Buffer(device)`` is empty. ``Buffer(device, value)`` contains an array, bytes, a text or a
    list of arrays. ``Buffer(buffer)`` shares the payload of another buffer and copies its meta.

    Attributes:
        native: modelflow's own buffer with that payload.
    """

    ModelBoxDataType: ClassVar = ModelBoxDataType

    def __init__(
        self, device: "Device | Buffer | NativeBuffer | None" = None, data: Any = None
    ) -> None:
        given = device.native if isinstance(device, Buffer) else device
        self.native: NativeBuffer = (
            header(given) if isinstance(given, NativeBuffer) else NativeBuffer()
        )
        if data is not None and not isinstance(data, Buffer):
            self.build(data)

    def build(self, data: Any) -> None:
        """Replaces the payload.

        Args:
            data: A text, an array, bytes, or another object with the buffer protocol. A list of
                arrays is concatenated.

        Raises:
            RuntimeError: An array without dimensions, of texts or of complex numbers.
        """
        if isinstance(data, bytes | bytearray | memoryview):
            data = bytes(data)
        elif isinstance(data, list | tuple):
            arrays = [np.asarray(item) for item in data]
            self.native.meta["shape"] = [list(array.shape) for array in arrays]
            data = np.concatenate([array.reshape(-1) for array in arrays])
        elif not isinstance(data, str):
            data = np.asarray(data)
        if isinstance(data, np.ndarray) and (data.ndim == 0 or data.dtype.name not in _DTYPES):
            raise RuntimeError(
                f"got an array of {data.dtype} with {data.ndim} dimensions; expected one at least, "
                f"of {', '.join(_DTYPES)}"
            )
        self.native.data = data

    # -- payload --------------------------------------------------------------------------------

    def as_object(self) -> Any:
        """Returns a text payload unchanged, and any other payload as a new flat array.

        The payload of an HTTP request is a text if it can be decoded as text.
        """
        data = self.native.data
        if isinstance(data, bytes) and TEXT in self.native.meta:
            with contextlib.suppress(UnicodeDecodeError):  # no text, for example an image
                return data.decode()
        if isinstance(data, bytes | bytearray | memoryview | np.ndarray):
            return np.asarray(self.native).reshape(-1).copy()
        return data

    def as_bytes(self) -> bytes:
        """Returns the payload as bytes."""
        return b"" if self.native.data is None else bytes(self.native)

    def get_bytes(self) -> int:
        """Returns the size of the payload in bytes, or 0 for an error."""
        return 0 if self.has_error() else len(self.as_bytes())

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        data = self.native.data
        array = np.asarray(NativeBuffer(data.encode()) if isinstance(data, str) else self.native)
        shape = self.native.meta.get("shape")
        if shape is not None and _fits(shape, array) and not isinstance(shape[0], list):
            array = array.reshape(shape)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __bytes__(self) -> bytes:
        return self.as_bytes()

    def __buffer__(self, flags: int) -> memoryview:
        # NumPy prefers it to `__array__`, so it has the type and the shape as well.
        if self.native.data is None:
            return memoryview(b"")
        return np.ascontiguousarray(self.__array__()).data

    def __str__(self) -> str:
        return self.as_bytes().decode()

    # -- meta -----------------------------------------------------------------------------------

    def set(self, key: str, value: Any) -> None:
        """Stores a meta value: a number, a text, a list, an array (copied), or any object.

        Raises:
            RuntimeError: The value is an integer of more than 64 bits, or a list of mixed types.
        """
        self.native.set(key, _meta_value(value))

    def get(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """Returns a meta value, or a given ``default``.

        Raises:
            ValueError: The value does not exist. The message lists the existing names.
        """
        meta, data = self.native.meta, self.native.data
        if isinstance(data, bytes):
            data = np.frombuffer(data, np.uint8)
        if isinstance(data, np.ndarray) and key in ("shape", "type"):
            # From the payload itself, because the meta may come from another payload.
            if key == "type":
                return _DTYPES.get(data.dtype.name)
            return meta[key] if _fits(meta.get(key), data) else list(data.shape)
        told = self.native.all_meta()
        if key in told:
            return told[key]
        if default is not _NO_DEFAULT:
            return default
        raise ValueError(f"no meta {key!r} (there are: {', '.join(told) or 'none'})")

    def copy_meta(self, other: "Buffer", *, is_override: bool = False) -> None:
        """Copies the meta of ``other``; existing values stay unless ``is_override`` is set."""
        theirs, meta = other.native.all_meta(), self.native.meta
        for key in theirs.keys() - PAYLOAD_MARKS:  # these keys describe the payload of the other
            if is_override or key not in meta:
                meta[key] = theirs[key]

    # -- errors ---------------------------------------------------------------------------------

    def has_error(self) -> bool:
        """Returns True if the buffer is an error."""
        return self.native.has_error()

    def set_error(self, code: str, message: str) -> None:
        """Turns the buffer into an error, and drops the payload."""
        self.native.data, self.native.error = None, CodedError(code, message)

    def get_error_code(self) -> str:
        """Returns the error's code (``Unit.ProcessError``), or ``""`` without an error."""
        return self.native.get_error_code()

    def get_error_msg(self) -> str:
        """Returns the message of the unit's status, or the whole text of modelflow's error."""
        error = self.native.error
        status = None if error is None else getattr(error.__cause__, "status", None)
        if status is not None:
            return str(status.errormsg())
        return error.message if isinstance(error, CodedError) else self.native.get_error_msg()


def _fits(shape: Any, array: npt.NDArray[Any]) -> bool:
    """Returns True if a shape, or a list of shapes, has as many elements as ``array``."""
    if not isinstance(shape, list) or not shape:
        return False
    shapes = shape if isinstance(shape[0], list) else [shape]
    return sum(math.prod(part) for part in shapes) == array.size


def header(native: NativeBuffer) -> NativeBuffer:
    """Returns a native buffer with the same payload and a copy of the meta."""
    copied = NativeBuffer(native.data)
    copied.error = native.error
    copied.inherit_meta(native)
    return copied


def outgoing(buffer: Buffer) -> NativeBuffer:
    """Returns the native buffer to send into the graph, with an array in its meta ``shape``."""
    native = header(buffer.native)
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
        raise RuntimeError(f"got {value}; expected an integer of 64 bits")
    return float(value) if isinstance(value, float) else value


def _list_value(values: list[Any]) -> list[Any]:
    first = values[0]
    if isinstance(first, list):
        return [_list_value(item) if item else [] for item in values]
    for kind in (bool, str, float, int):
        if isinstance(first, kind):
            allowed = (int, float) if kind is float else (kind,)
            if not all(isinstance(item, allowed) for item in values):
                raise RuntimeError(f"got the list {values!r}; expected items of one type")
            return [kind(item) for item in values]
    return list(values)


class BufferList:
    """The buffers of one port."""

    def __init__(self, source: "Device | Buffer | Sequence[Buffer] | None" = None) -> None:
        self._device = source if isinstance(source, Device) else Device()
        self._buffers: list[Buffer] = []
        given = [source] if isinstance(source, Buffer) else source
        for buffer in given if isinstance(given, list | tuple) else ():
            self.push_back(buffer)

    @classmethod
    def of(cls, natives: Sequence[NativeBuffer], device: Device) -> Self:
        """Returns the list of native buffers."""
        found = cls(device)
        found._buffers = [Buffer(native) for native in natives]
        return found

    def build(self, sizes: Sequence[int]) -> None:
        """Replaces the buffers by new buffers of the given sizes in bytes, filled with zeros."""
        self._buffers = [Buffer(self._device, np.zeros(size, np.uint8)) for size in sizes]

    def size(self) -> int:
        """Returns the number of buffers."""
        return len(self._buffers)

    def push_back(self, value: Any) -> None:
        """Adds a buffer (as a copy of its header), an array, or a text."""
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
        """Turns every buffer into an error."""
        for buffer in self._buffers:
            buffer.set_error(code, message)

    def copy_meta(self, other: "BufferList", is_override: bool = False) -> None:
        """Copies the meta of the buffers of ``other``, buffer by buffer."""
        for mine, theirs in zip(self._buffers, other._buffers, strict=False):
            mine.copy_meta(theirs, is_override=is_override)

    def get_bytes(self) -> int:
        """Returns the size of all payloads in bytes."""
        return sum(buffer.get_bytes() for buffer in self._buffers)

    def get_device(self) -> Device:
        """Returns the device."""
        return self._device

    def natives(self) -> list[NativeBuffer]:
        """Returns copies of the native headers, to send into the graph."""
        return [outgoing(buffer) for buffer in self._buffers]

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._buffers)

    def __getitem__(self, place: int) -> Buffer | None:
        return self._buffers[place] if 0 <= place < len(self._buffers) else None
