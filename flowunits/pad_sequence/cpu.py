"""``pad_sequence`` on the CPU."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.pad_sequence import PadSequenceOptions
from modelflow import Buffer, Context, FlowUnit

_MAX_BYTES = 2 << 30


class PadSequence(FlowUnit):
    """Copies a sequence into an array that is filled with the padding value."""

    def open(self, config: PadSequenceOptions) -> None:
        """Stores the options."""
        self._length, self._value = config.length, config.value
        self._is_left = config.side == "left"
        self._is_cut_left = (config.cut_side or config.side) == "left"

    def process(self, ctx: Context) -> None:
        """Processes each buffer separately."""
        ctx.emit_each(self._fit)

    def _fit(self, buffer: Buffer) -> npt.NDArray[Any]:
        array = _sequence(buffer.data)
        length, found = self._length, len(array)
        if found == length:
            return array
        if found > length:
            return array[found - length :] if self._is_cut_left else array[:length]
        value = self._value_as(array.dtype)
        shape = (length, *array.shape[1:])
        if math.prod(shape) * array.itemsize > _MAX_BYTES:
            raise ValueError(
                f"in_data: got {array.dtype} {array.shape}, which would become {shape}; expected "
                f"at most {_MAX_BYTES} bytes"
            )
        out = np.full(shape, value, array.dtype)
        out[length - found if self._is_left else 0 :][:found] = array
        return out

    def _value_as(self, dtype: np.dtype[Any]) -> Any:
        value = self._value
        if dtype.kind == "f":
            is_held = not math.isfinite(value) or abs(value) <= float(np.finfo(dtype).max)
        else:
            limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            is_held = value.is_integer() and limits[0] <= int(value) <= limits[1]
        if not is_held:
            raise ValueError(
                f"in_data: got an array of {dtype}; expected one that can hold value={value:g}"
            )
        return value if dtype.kind == "f" else int(value)


def _sequence(data: Any) -> npt.NDArray[Any]:
    found = type(data).__name__
    if isinstance(data, np.ndarray | list | tuple):
        try:
            array = np.asarray(data)
        except ValueError:  # lists of unequal lengths
            found = f"a {found} of unequal lengths"
        else:
            if array.dtype.kind in "buif" and array.ndim:
                return array
            found = f"{array.dtype} {array.shape}"
    raise ValueError(f"in_data: got {found}; expected numbers (n, ...)")
