"""One input or output of a flow unit: its name, and what passes there."""

import re
from dataclasses import dataclass

import numpy as np

from modelflow.wire.tensor import TensorSpec

# Those that a mistake is compared with; NumPy's other names are good, too.
ARRAY_TYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"),
    "bfloat16",
)

_SHAPE = re.compile(r"\(([^()]*)\)\Z")


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a unit.

    Attributes:
        name: Any text; names with other characters than letters are quoted in DOT.
        description: What passes here: dtype, shape with named axes, colour order, range.
        dtype: The element type, ``"uint8"``, ``"float32"``; None: any.
        shape: The shape of one item with named axes, ``"(H, W, 3)"``; None: any.
        is_optional: The port may be left unconnected. An edge that names no port means the only one
            that is not optional; what leaves by an optional one for nowhere is worth no note.
        is_in_place: The unit writes into the arrays of this input: it gets arrays that nobody else
            sees. They are copied where somebody may: views, tensors, arrays behind a fan-out. In
            lists and dicts nothing is copied. Elsewhere inputs are read-only.
        device: The device that the data must be on; None: the node's own.
        is_trigger: The items carry no value: each asks for one call of a unit that needs no data.
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
        """What one item is as a tensor, as far as the port says it; None: no type is declared.

        An axis that has a name instead of a length is free: ``"(H, W, 3)"`` is (None, None, 3). A
        shape that is prose says nothing.
        """
        if self.dtype is None:
            return None
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:  # a type that NumPy lacks: bfloat16
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
