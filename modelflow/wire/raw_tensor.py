"""Tensors as raw bytes in the form of the Open Inference Protocol: little-endian, in C order.

Each ``BYTES`` element is a length, uint32, and that many bytes. NumPy has no type for ``BF16``. It
is float32 in memory, with which every unit can compute without further packages. Converting it back
gives the same bits.
"""

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.errors import did_you_mean
from modelflow.wire.json_writer import json_of
from modelflow.wire.problem import refuse, shorten
from modelflow.wire.tensor import DATATYPES, MOST_AXES

BF16 = "BF16"
"""The name of the type that NumPy does not have."""

_LENGTH = struct.Struct("<I")
# Types whose bytes need no check or conversion: every sequence of bytes is valid.
_STORED = {
    name: dtype.newbyteorder("<") for name, dtype in DATATYPES.items() if dtype.kind in "iuf"
}


def element_type(datatype: object, where: str) -> np.dtype[Any]:
    """Returns the element type in memory of a datatype's name.

    Raises:
        Problem: No datatype has that name.
    """
    if datatype == BF16:
        return np.dtype(np.float32)
    found = DATATYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        known = (*DATATYPES, BF16)
        near = did_you_mean(shorten(datatype).upper(), known)
        refuse(f"{where}: datatype {shorten(datatype)}; expected one of {', '.join(known)}{near}")
    return found


def plain_numbers(data: bytes, datatype: str, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """Returns the result of `from_raw` for most tensors, or None for tensors that need its checks.

    Args:
        data: All bytes of the tensor.
        datatype: The type that the client states.
        shape: The shape that the client states: any integers.
    """
    stored = _STORED.get(datatype)
    if stored is None or len(shape) > MOST_AXES or min(shape, default=1) < 1:
        return None
    try:
        array = np.ndarray(shape, stored, data)
    except (TypeError, ValueError):  # too few bytes, or more elements than possible
        return None
    return array if array.nbytes == len(data) else None


def from_raw(
    data: bytes | memoryview, datatype: str, shape: tuple[int, ...], where: str
) -> npt.NDArray[Any]:
    """Returns the tensor that bytes contain.

    Args:
        data: All bytes of the tensor.
        datatype: A name that `element_type` knows.
        shape: The shape, from `check_shape`.
        where: The place of the tensor, for messages.

    Returns:
        A read-only view on ``data``, which may begin at any address. For ``BF16`` and ``BYTES`` a
        new array, of float32 and of ``bytes``.

    Raises:
        Problem: The number of bytes does not fit type and shape.
    """
    dtype = element_type(datatype, where)
    count = math.prod(shape)
    if dtype.kind == "O":
        return _elements(data, count, where).reshape(shape)
    stored = np.dtype("<u2") if datatype == BF16 else dtype.newbyteorder("<")
    expected = count * stored.itemsize
    size = memoryview(data).nbytes
    if size != expected:
        refuse(f"{where}: {size} bytes; expected {expected} for {datatype} of shape {list(shape)}")
    array = np.frombuffer(data, stored) if count else np.empty(0, stored)
    array.flags.writeable = False
    if datatype == BF16:
        array = widen_bf16(array)
    elif dtype.kind == "b" and count and array.view(np.uint8).max() > 1:
        refuse(f"{where}: a byte that is neither 0 nor 1; expected these for BOOL")
    return array.reshape(shape)


def to_raw(array: npt.NDArray[Any], datatype: str, where: str) -> bytes:
    """Returns the bytes of a tensor.

    Args:
        array: The elements, of the type that ``datatype`` means. For ``BYTES`` they are bytes,
            texts or JSON values. For ``BF16`` they are float32 (rounded to the nearest) or of a
            16-bit type of that name.
        datatype: A name that `element_type` knows.
        where: The name of the tensor, for messages.

    Raises:
        Problem: An element has no form as bytes.
    """
    stored = _STORED.get(datatype)
    if stored is not None:
        return array.astype(stored, copy=False).tobytes()
    dtype = element_type(datatype, where)
    if dtype.kind == "O":
        parts: list[bytes] = []
        for item in array.ravel().tolist():
            data = _data(item)
            parts += (_LENGTH.pack(len(data)), data)
        return b"".join(parts)
    if datatype == BF16:
        if array.dtype.itemsize == 2:
            return array.tobytes()
        return _bf16_bits(array).tobytes()
    return array.astype(dtype, copy=False).tobytes()


def _elements(data: bytes | memoryview, count: int, where: str) -> npt.NDArray[Any]:
    view = memoryview(data).cast("B")
    size, at = view.nbytes, 0
    if size < count * _LENGTH.size:
        refuse(
            f"{where}: {size} bytes; {count} BYTES elements take {count * _LENGTH.size} for their "
            "lengths alone"
        )
    array = np.empty(count, np.object_)
    for index in range(count):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(view, at)[0] if start <= size else start
        if end > size:
            refuse(
                f"{where}: element {index} ends at byte {end}; the tensor has {size} bytes "
                "(each element is its length, uint32, and its bytes)"
            )
        array[index] = bytes(view[start:end])
        at = end
    if at != size:
        refuse(f"{where}: {size - at} bytes after the last of {count} elements; expected none")
    return array


def _data(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    return bytes(item) if isinstance(item, (bytes, bytearray, memoryview)) else json_of(item)


def widen_bf16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Converts the upper halves of float32 numbers to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bf16_bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Returns the upper halves of float32, rounded to the nearest, ties to even; NaN stays NaN."""
    whole = np.ascontiguousarray(array, np.float32)
    bits = whole.view(np.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(whole), quiet, rounded).astype("<u2")
