"""One tensor seen in a payload that fills it exactly: bytes, or a flat row of elements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.wire.tensor import has_shape

__all__ = ["view"]


def view(
    payload: Any,
    meta_shape: Any,
    dtype: np.dtype[Any],
    shape: Sequence[int | None] | None,
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
