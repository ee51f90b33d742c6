"""Conversion between both forms of TensorFlow's ``TensorProto`` and arrays, without TensorFlow."""

import math
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import Code, refuse
from modelflow.wire.proto import TF_SERVING
from modelflow.wire.raw_tensor import widen_bf16
from modelflow.wire.tensor import check_shape

# For each type name: the type in memory, the field of its values, and the type in that field. A
# bfloat16 is float32 in memory, because NumPy has no type for it.
_FORMS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "DT_FLOAT": ("<f4", "float_val", "<f4"),
        "DT_DOUBLE": ("<f8", "double_val", "<f8"),
        "DT_INT32": ("<i4", "int_val", "<i4"),
        "DT_UINT8": ("|u1", "int_val", "<i4"),
        "DT_INT16": ("<i2", "int_val", "<i4"),
        "DT_INT8": ("|i1", "int_val", "<i4"),
        "DT_STRING": ("O", "string_val", "O"),
        "DT_COMPLEX64": ("<c8", "scomplex_val", "<f4"),
        "DT_INT64": ("<i8", "int64_val", "<i8"),
        "DT_BOOL": ("?", "bool_val", "?"),
        "DT_BFLOAT16": ("<f4", "half_val", "<i4"),
        "DT_UINT16": ("<u2", "int_val", "<i4"),
        "DT_COMPLEX128": ("<c16", "dcomplex_val", "<f8"),
        "DT_HALF": ("<f2", "half_val", "<i4"),
        "DT_UINT32": ("<u4", "uint32_val", "<u4"),
        "DT_UINT64": ("<u8", "uint64_val", "<u8"),
    }
)
_OF_DTYPE = {
    np.dtype(memory): name for name, (memory, _, _) in _FORMS.items() if name != "DT_BFLOAT16"
}
# 2 GiB of float32. A limit is needed, because a few bytes can state a shape of any size.
MOST_ELEMENTS = 1 << 29
"""The most elements of a tensor with repeated values, unless the caller sets another limit."""

_PACKED = {"float_val": 0x2A, "double_val": 0x32, "bool_val": 0x5A}  # field number << 3 | 2


def type_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of an element type in ``tensorflow.DataType``.

    Raises:
        Problem: TensorFlow has no such type.
    """
    name = _OF_DTYPE.get(np.dtype(np.object_) if dtype.kind in "SU" else dtype)
    if name is None and dtype.name == "bfloat16":
        name = "DT_BFLOAT16"
    if name is None:
        refuse(f"element type {dtype.name}: TensorFlow has none for it", Code.UNIMPLEMENTED)
    return name


def type_number(dtype: np.dtype[Any]) -> int:
    """Returns the number of an element type in ``tensorflow.DataType``.

    Raises:
        Problem: TensorFlow has no such type.
    """
    return _numbers()[type_name(dtype)]


@cache
def _numbers() -> Mapping[str, int]:
    return TF_SERVING.enum("tensorflow.DataType")


@cache
def _names() -> Mapping[int, str]:
    return {number: name for name, number in _numbers().items()}


def name_of(number: int) -> str:
    """Returns the name of a number in ``tensorflow.DataType``, or the number as text if unknown."""
    return _names().get(number, str(number))


def dtype_of(number: int, where: str) -> np.dtype[Any]:
    """Returns the element type in memory of a number of ``tensorflow.DataType``.

    Raises:
        Problem: The number is no type, or a type without tensors.
    """
    return np.dtype(_form(number, where)[0])


def array_of_proto(
    tensor: Any, where: str, *, most_elements: int = MOST_ELEMENTS
) -> npt.NDArray[Any]:
    """Converts a ``TensorProto`` to an array, read-only if the array is a view on the message.

    Args:
        tensor: The message. If it has fewer values than elements, the last value repeats. If it has
            none, the elements are zeros.
        where: The name of the tensor, for messages.
        most_elements: The most elements of a tensor whose values are repeated.

    Raises:
        Problem: The values do not fit type and shape.
    """
    memory, field, stored = _form(tensor.dtype, where)
    shape = _shape(tensor.tensor_shape, where)
    count = math.prod(shape)
    name = _names()[tensor.dtype]
    if tensor.tensor_content:
        return _of_content(tensor.tensor_content, name, shape, where)
    values = getattr(tensor, field)
    parts = 2 if memory[1:2] == "c" else 1
    if len(values) > count * parts:
        refuse(
            f"{where}: {len(values)} values in {field}; expected {count * parts} at most for shape "
            f"{list(shape)}"
        )
    if count > max(most_elements, len(values)):
        refuse(
            f"{where}: shape {list(shape)} has {count} elements; at most {most_elements} are made "
            f"of {len(values)} values",
            Code.RESOURCE_EXHAUSTED,
        )
    if memory == "O":
        return _texts(values, count).reshape(shape)
    held = np.asarray(values, np.dtype(stored)) if len(values) else np.zeros(parts, stored)
    array = _in_memory(held, name, np.dtype(memory), where)
    if array.size < count:
        array = np.concatenate([array, np.repeat(array[-1:], count - array.size)])
    return array[:count].reshape(shape)


def fill_proto(tensor: Any, array: npt.NDArray[Any], *, as_content: bool = False) -> None:
    """Writes an array into an empty ``TensorProto``.

    Args:
        tensor: The message.
        array: The elements; objects are bytes or texts.
        as_content: Whether to write raw bytes into ``tensor_content``, which is smaller for
            integers. Otherwise the field of the type is used, which every client reads. Texts have
            no raw form.

    Raises:
        Problem: TensorFlow has no such type.
    """
    number = type_number(array.dtype)
    tensor.dtype = number
    # Without this line a tensor without axes would have no shape in the message.
    tensor.tensor_shape.SetInParent()
    for extent in array.shape:
        tensor.tensor_shape.dim.add(size=extent)
    memory, field, stored = _FORMS[_names()[number]]
    if memory == "O":
        tensor.string_val.extend(
            item.encode() if isinstance(item, str) else bytes(item)
            for item in array.ravel().tolist()
        )
        return
    if _names()[number] == "DT_BFLOAT16":
        array, memory = array.view(np.uint16), "<u2"
    flat = np.ascontiguousarray(array, np.dtype(memory)).ravel()
    if as_content:
        tensor.tensor_content = flat.tobytes()
    elif field in _PACKED:
        # Packed values of a fixed width are the array's own bytes. protobuf copies them in one go.
        data = flat.view(np.uint8)
        tensor.MergeFromString(bytes([_PACKED[field]]) + _varint(data.size) + data.tobytes())
    else:
        values = flat.view(np.uint16) if field == "half_val" else flat
        parts = values.view(np.dtype(stored)) if memory[1:2] == "c" else values
        getattr(tensor, field).extend(parts.tolist())


def _form(number: int, where: str) -> tuple[str, str, str]:
    name = name_of(number)
    if name not in _FORMS:
        refuse(f"{where}: dtype {name}; expected one of {', '.join(_FORMS)}")
    return _FORMS[name]


def _shape(shape: Any, where: str) -> tuple[int, ...]:
    if shape.unknown_rank:
        refuse(f"{where}: shape unknown; expected lengths of 0 or more")
    return check_shape([dim.size for dim in shape.dim], where)


def _of_content(content: bytes, name: str, shape: tuple[int, ...], where: str) -> npt.NDArray[Any]:
    if name == "DT_STRING":
        refuse(f"{where}: texts in tensor_content; expected them in string_val")
    stored = np.dtype("<u2" if name == "DT_BFLOAT16" else _FORMS[name][0])
    expected = math.prod(shape) * stored.itemsize
    if len(content) != expected:
        refuse(
            f"{where}: {len(content)} bytes in tensor_content; expected {expected} for {name} of "
            f"shape {list(shape)}"
        )
    if name == "DT_BOOL" and np.frombuffer(content, np.uint8).max(initial=0) > 1:
        refuse(f"{where}: a byte that is neither 0 nor 1; expected these for DT_BOOL")
    array = np.frombuffer(content, stored)
    if name == "DT_BFLOAT16":
        array = widen_bf16(array)
    return array.reshape(shape)


def _in_memory(
    held: npt.NDArray[Any], name: str, dtype: np.dtype[Any], where: str
) -> npt.NDArray[Any]:
    """Converts values from a message's field to elements of a tensor."""
    if dtype.kind == "c":
        if held.size % 2:
            refuse(f"{where}: {held.size} values; complex numbers are pairs")
        return held.view(dtype)
    bits = name in ("DT_HALF", "DT_BFLOAT16")
    small = np.dtype(np.uint16) if bits else dtype
    if small.kind in "iu" and small != held.dtype:
        info = np.iinfo(small)
        if held.min() < info.min or held.max() > info.max:
            refuse(f"{where}: a value beyond {info.min} to {info.max}, the range of {name}")
    narrow = held.astype(small, copy=False)
    if name == "DT_BFLOAT16":
        return widen_bf16(narrow)
    return narrow.view(dtype) if bits else narrow


def _texts(values: Any, count: int) -> npt.NDArray[Any]:
    array = np.empty(count, np.object_)
    array[:] = values[-1] if len(values) else b""
    array[: len(values)] = list(values)
    return array


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
