"""Tensors on the wire: names of element types, bounded shapes, specifications, views of bytes.

A model's input ``TensorSpec("image", float32, (None, 224, 224, 3))`` takes batches of any length;
`TensorSpec.item_shape` is that of one item, ``(224, 224, 3)``.
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
"""By name, in the order of the protocol; ``BYTES`` are texts, images, any bytes."""


def datatype_of(dtype: np.dtype[Any]) -> str:
    """Returns the name of an element type; NumPy's own where the protocol has none.

    ``bfloat16``, which other packages add to NumPy, is ``BF16``.
    """
    known = _NAMES.get(dtype if dtype.isnative else dtype.newbyteorder("="))
    if known is not None:
        return known
    if dtype.kind in "SUT":  # texts in an array, of which each length is a type of its own
        return "BYTES"
    return "BF16" if dtype.name == "bfloat16" else dtype.name


_NAMES = {dtype: name for name, dtype in DATATYPES.items()}


MOST_AXES = 32
"""NumPy 1 has no more."""

# As many bytes as a processor can address. Without a bound NumPy refuses shapes of its own accord,
# also those with an axis of length 0, of which a few bytes can ask for any other length.
_MOST_ELEMENTS = 1 << 48


def check_shape(shape: object, where: str) -> tuple[int, ...]:
    """Returns a shape that came as a list.

    Args:
        shape: What came.
        where: What it is the shape of, for messages.

    Raises:
        Problem: it is no list of lengths, or of too many, or of more elements than there can be.
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
    """One input or output of a model.

    Attributes:
        name: The port's name, as the unit calls it.
        dtype: The element type; ``object`` for text (items are ``bytes``).
        shape: The shape, None for an axis that is free; None as a whole where the model does not
            say how many axes there are.
        is_batched: Axis 0 is the batch. False: there is no batch axis; the array is one request's
            value (an input) or one item's (an output). None: the model does not say.
        is_shape_checked: Values of another shape are refused. False: the shape only describes what
            is usual, and the model itself judges the values.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None = None
    is_batched: bool | None = None
    is_shape_checked: bool = True

    @property
    def item_shape(self) -> tuple[int | None, ...] | None:
        """The shape of one item: without axis 0, where that is or may be the batch."""
        if self.shape is None or self.is_batched is False:
            return self.shape
        return self.shape[1:]

    @property
    def batch_size(self) -> int | None:
        """The length of axis 0 where the model fixes it; None where it is free or not known."""
        return self.shape[0] if self.shape and self.is_batched is not False else None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name} ({self.dtype.name})"
        return f"{self.name} ({self.dtype.name} {shape_text(self.shape)})"


def has_shape(lengths: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Tells whether lengths are those of a shape, whose free axes (None) take any."""
    return len(lengths) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(lengths, shape, strict=True)
    )


def shape_text(shape: Sequence[int | None]) -> str:
    """Returns a shape as it stands in messages: ``(?, 224, 224, 3)``."""
    inner = ", ".join("?" if extent is None else str(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def view(
    payload: Any, meta_shape: Any, dtype: np.dtype[Any], shape: Sequence[int | None] | None
) -> npt.NDArray[Any] | None:
    """Returns a payload as an array of the given type and shape; nothing is copied.

    Args:
        payload: Bytes, or an array of one axis.
        meta_shape: The buffer's meta ``shape``: a list of lengths; anything else says nothing.
        dtype: The element type.
        shape: The shape, None for a free axis; None: of any shape. Free axes take the lengths of
            ``meta_shape``.

    Returns:
        None: the payload is of another form, or fills no such tensor exactly.
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
