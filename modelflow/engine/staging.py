"""How items become the array that an engine reads: checked on arrival, gathered once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import CPU, Device, memory_of
from modelflow.errors import EngineError
from modelflow.wire.tensor import TensorSpec, shape_text

__all__ = ["InputPort"]

Array = npt.NDArray[Any]

# Python's own numbers are of no type yet.
_UNTYPED = (list, tuple, int, float)


class InputPort:
    """One input of an inference unit: checks items, and gathers them into one staging array.

    Safe to use from several threads.
    """

    def __init__(
        self, unit: str, tensor: TensorSpec, is_cast_allowed: bool, device: Device = CPU
    ) -> None:
        """Takes the unit's name, for messages, and what the model expects, and where."""
        self.name = tensor.name
        self._unit = unit
        self._tensor = tensor
        self._dtype = tensor.dtype
        self._is_text = tensor.dtype == object
        self._is_cast_allowed = is_cast_allowed
        self._device = device
        self._memory = memory_of(device.kind)
        # The shape that passed last: most batches hold one shape only.
        self._passed: tuple[int, ...] | None = None

    def arrive(self, data: Any) -> Any:
        """Returns one item as an array that fits the model, without copying one that does.

        An array on the model's device stays there.

        Raises:
            EngineError: naming unit, port, what was expected and what came.
        """
        if type(data) is np.ndarray:
            if data.dtype == self._dtype and data.shape == self._passed:
                return data
        elif self._device.kind != CPU.kind and self._memory.holds(data):
            return self._on_device(data)
        array = self._text(data) if self._is_text else self._numbers(data)
        if not self._fits(array.shape):
            raise EngineError(self._message(_described(data), "of that shape"))
        self._passed = array.shape
        return array

    def gather(self, items: Sequence[Any], size: int, shape: tuple[int, ...] | None = None) -> Any:
        """Returns ``items`` as one C-contiguous array of ``size`` rows on the model's device.

        Args:
            items: What `arrive` gave.
            size: The length of axis 0; what is behind the items is zeros.
            shape: See `Memory.gather`.
        """
        return self._memory.gather(items, size, self._dtype, self._device, shape)

    def _on_device(self, data: Any) -> Any:
        dtype, shape = self._memory.dtype_of(data), tuple(data.shape)
        got = f"{data.dtype} {shape_text(shape)} on {self._device}"
        if dtype != self._dtype:
            is_near = dtype is not None and np.can_cast(dtype, self._dtype, "same_kind")
            if not (is_near and self._is_cast_allowed):
                advice = "; convert it before, or set allow_cast=true" if is_near else ""
                raise EngineError(self._message(got, f"of that type{advice}"))
        if not self._fits(shape):
            raise EngineError(self._message(got, "of that shape"))
        return data

    def _numbers(self, data: Any) -> Array:
        try:
            array = np.asarray(data)
        except ValueError as error:  # a ragged list
            raise EngineError(self._message(_described(data), "of one shape")) from error
        if array.dtype == self._dtype:
            return array
        if array.dtype.kind in "biufc" and np.can_cast(array.dtype, self._dtype, "same_kind"):
            if self._is_cast_allowed:
                return array
            if isinstance(data, _UNTYPED):
                return array.astype(self._dtype)
            advice = "of that type; convert it before, or set allow_cast=true"
            raise EngineError(self._message(_described(data), advice))
        raise EngineError(self._message(_described(data), "of that type"))

    def _text(self, data: Any) -> Array:
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes | bytearray | memoryview):
            array = np.empty((), object)
            array[()] = bytes(data)
            return array
        array = np.asarray(data)
        if array.dtype.kind in "SU":
            encoded = np.char.encode(array) if array.dtype.kind == "U" else array
            return encoded.astype(object)
        if array.dtype == object and all(isinstance(text, bytes | str) for text in array.flat):
            return array
        raise EngineError(self._message(_described(data), "of text (str or bytes)"))

    def _fits(self, shape: tuple[int, ...]) -> bool:
        wanted = self._tensor.item_shape
        return wanted is None or (
            len(shape) == len(wanted)
            and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))
        )

    def _message(self, got: str, advice: str) -> str:
        kind = "text" if self._is_text else self._dtype.name
        shape = self._tensor.item_shape
        expected = kind if shape is None else f"{kind} {shape_text(shape)}"
        return (
            f"unit {self._unit!r}, input {self.name!r}: got {got}; expected {expected}; "
            f"give an item {advice}"
        )


def _described(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"{data.dtype.name} {shape_text(data.shape)}"
    if isinstance(data, bytes | bytearray | memoryview):
        return f"{len(data)} bytes"
    return type(data).__name__
