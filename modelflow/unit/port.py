"""Inputs and outputs of a flow unit: their names, and the data that passes."""

import re
from dataclasses import dataclass

import numpy as np

from modelflow.wire.tensor import TensorSpec

# Suggestions for a misspelt type. NumPy's other names are also accepted.
ARRAY_TYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"),
    "bfloat16",
)

_SHAPE = re.compile(r"\(([^()]*)\)\Z")


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a unit.

    Attributes:
        name: Any text. DOT needs quotes for names with other characters than letters.
        description: The data at this port: dtype, shape with named axes, colour order, range.
        dtype: The element type, ``"uint8"``, ``"float32"``, or None for any type.
        shape: The shape of one item with named axes, ``"(H, W, 3)"``, or None for any shape.
        is_optional: Whether the port may stay unconnected. An edge without a port name means the
            only port that is not optional. No note is written if buffers of an optional output are
            dropped.
        is_in_place: Whether the unit writes into the arrays of this input. Then the unit gets
            arrays that no other code sees. They are copies, unless the unit before hands its arrays
            over (`FlowUnitSpec.hands_over_arrays`) to this input alone. Tensors are always copied,
            arrays in lists and dicts never. Other inputs are read-only.
        device: The device where the data must be, or None for the node's own device.
        is_trigger: Whether the items have no value, and each item only requests one call of a unit
            without data.
    """

    name: str
    description: str = ""
    dtype: str | None = None
    shape: str | None = None
    is_optional: bool = False
    is_in_place: bool = False
    device: str | None = None
    is_trigger: bool = False

    @property
    def tensor(self) -> TensorSpec | None:
        """The tensor of one item as declared by the port, or None without a type.

        An axis with a name instead of a length is free: ``"(H, W, 3)"`` is (None, None, 3). A shape
        in prose gives no axes.
        """
        if self.dtype is None:
            return None
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:  # a type that NumPy does not have: bfloat16
            return None
        return TensorSpec(self.name, dtype, _extents(self.shape))


def _extents(shape: str | None) -> tuple[int | None, ...] | None:
    found = None if shape is None else _SHAPE.match(shape.strip())
    if found is None:
        return None
    parts = [part.strip() for part in found[1].split(",") if part.strip()]
    if not all(part.isdecimal() or part.isidentifier() or part == "?" for part in parts):
        return None
    return tuple(int(part) if part.isdecimal() else None for part in parts)
