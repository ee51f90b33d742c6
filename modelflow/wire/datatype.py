"""The names of element types on the wire: those of the Open Inference Protocol."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

__all__ = ["DATATYPES", "datatype_of"]

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
    known = _NAMES.get(dtype)
    if known is not None:
        return known
    return "BF16" if dtype.name == "bfloat16" else dtype.name


_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
