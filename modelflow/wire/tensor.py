"""Tensors on the wire: names of element types, limits of shapes, specifications, views of bytes.

A model's input ``TensorSpec("image", float32, (None, 224, 224, 3))`` takes batches of any length.
`TensorSpec.item_shape` is the shape of one item, ``(224, 224, 3)``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.problem import refuse, shorten

DATATYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "BOOL": np.dtype(np.bool_),
        "UINT8": np.dtype(np.uint8),
        "UINT16": np.dtype(np.uint16),
        "UINT32": np.dtype(np.uint32),
        "UINT64": np.dtype(np.uint64),
        "INT8": np.dtype(np.int8),
        "INT16": np.dtype(np.int16),
        "INT32": np.dtype(np.int32),
        "INT64": np.dtype(np.int64),
        "FP16": np.dtype(np.float16),
        "FP32": np.dtype(np.float32),
        "FP64": np.dtype(np.float64),
        "BYTES": np.dtype(np.object_),
    }
)
"""Element types by name, in the order of the protocol. ``BYTES`` are texts, images, any bytes."""


def datatype_of(dtype: np.dtype[Any]) -> str:
    """Returns the protocol's name of an element type, or NumPy's name if the protocol has none.

    ``bfloat16``, which other packages add to NumPy, is ``BF16``.
    """
    known = _NAMES.get(dtype if dtype.isnative else dtype.newbyteorder("="))
    if known is not None:
        return known
    if dtype.kind in "SUT":  # texts in an array, where each length is a different type
        return "BYTES"
    return "BF16" if dtype.name == "bfloat16" else dtype.name


_NAMES = {dtype: name for name, dtype in DATATYPES.items()}


MOST_AXES = 32
"""The most axes of a tensor, which is the limit of NumPy 1."""

# As many bytes as a processor can address. NumPy itself refuses larger shapes, even with an axis of
# length 0. A few bytes of a request with such an axis can ask for any length of the others.
_MOST_ELEMENTS = 1 << 48


def check_shape(shape: object, where: str) -> tuple[int, ...]:
    """Checks a client's shape and returns the shape as a tuple.

    Args:
        shape: The value that the client sent.
        where: The tensor of the shape, for messages.

    Raises:
        Problem: The value is no list of lengths, or has too many axes or elements.
    """
    if not isinstance(shape, Sequence) or isinstance(shape, (str, bytes)):
        refuse(f"{where}: shape {shorten(shape)}; expected a list of integers")
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        refuse(f"{where}: shape {shorten(list(shape))}; expected integers of 0 or more")
    if len(shape) > MOST_AXES:
        refuse(f"{where}: {len(shape)} axes; at most {MOST_AXES} are possible")
    if math.prod(filter(None, shape)) > _MOST_ELEMENTS:
        refuse(
            f"{where}: shape {shorten(list(shape))}; its axes, those of 0 left out, may make 2**48 "
            "elements at most"
        )
    return tuple(shape)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of a model.

    Attributes:
        name: The port's name, as the unit calls it.
        dtype: The element type; ``object`` for text (items are ``bytes``).
        shape: The shape, with None for a free axis. None as a whole if the model does not state the
            number of axes.
        is_batched: True if axis 0 is the batch. False if the array has no batch axis: it is one
            request's value (an input) or one item's (an output). None if the model does not state
            it.
        is_shape_checked: True if values of another shape are refused. False if the shape is only
            the usual one, and the model itself checks the values.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None = None
    is_batched: bool | None = None
    is_shape_checked: bool = True

    @property
    def item_shape(self) -> tuple[int | None, ...] | None:
        """The shape of one item: without axis 0 if axis 0 is or may be the batch."""
        if self.shape is None or self.is_batched is False:
            return self.shape
        return self.shape[1:]

    @property
    def batch_size(self) -> int | None:
        """The length of axis 0 if fixed by the model. None if the length is free or unknown."""
        return self.shape[0] if self.shape and self.is_batched is not False else None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name} ({self.dtype.name})"
        return f"{self.name} ({self.dtype.name} {shape_text(self.shape)})"


def has_shape(lengths: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Returns True if lengths match a shape, whose free axes (None) take any length."""
    return len(lengths) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(lengths, shape, strict=True)
    )


def shape_text(shape: Sequence[int | None]) -> str:
    """Returns a shape in the form for messages: ``(?, 224, 224, 3)``."""
    inner = ", ".join("?" if extent is None else str(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def view(
    payload: Any, meta_shape: Any, dtype: np.dtype[Any], shape: Sequence[int | None] | None
) -> npt.NDArray[Any] | None:
    """Returns a payload as an array of the given type and shape, without a copy.

    Args:
        payload: Bytes, or an array of one axis.
        meta_shape: The buffer's meta ``shape``: a list of lengths. Any other value is ignored.
        dtype: The element type.
        shape: The shape, with None for a free axis. None for any shape. Free axes take the lengths
            of ``meta_shape``.

    Returns:
        The array. None if the payload has another form or size.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        payload = np.frombuffer(payload, np.uint8)
    elif not isinstance(payload, np.ndarray) or payload.ndim != 1:
        return None
    target = _target(meta_shape, shape)
    if target is None:
        return None
    if payload.dtype == np.uint8 and payload.nbytes == math.prod(target) * dtype.itemsize:
        payload = np.ascontiguousarray(payload).view(dtype)
    if payload.dtype != dtype or payload.size != math.prod(target):
        return None
    seen: npt.NDArray[Any] = payload.reshape(target)
    return seen


def _target(meta_shape: Any, shape: Sequence[int | None] | None) -> tuple[int, ...] | None:
    said = meta_shape if isinstance(meta_shape, list | tuple) else ()
    if said and all(isinstance(length, int) and length >= 0 for length in said):
        lengths = tuple(said)
        if shape is None or has_shape(lengths, shape):
            return lengths
    if shape is None or None in shape:
        return None
    return tuple(length for length in shape if length is not None)
