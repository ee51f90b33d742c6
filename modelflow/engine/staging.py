"""How items become the array that an engine reads: checked on arrival, gathered once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import empty
from modelflow.engine.engine import TensorSpec, shape_text
from modelflow.errors import EngineError

__all__ = ["InputPort"]

Array = npt.NDArray[Any]


class InputPort:
    """One input of an inference unit: checks items, and gathers them into one staging array.

    Safe to use from several threads.
    """

    def __init__(self, unit: str, tensor: TensorSpec, is_cast_allowed: bool) -> None:
        """Takes the unit's name, for messages, and what the model expects."""
        self.name = tensor.name
        self._unit = unit
        self._tensor = tensor
        self._dtype = tensor.dtype
        self._is_text = tensor.dtype == object
        self._is_cast_allowed = is_cast_allowed
        # The shape that passed last: most batches hold one shape only.
        self._passed: tuple[int, ...] | None = None

    def arrive(self, data: Any) -> Array:
        """Returns one item as an array that fits the model, without copying one that does.

        Raises:
            EngineError: naming unit, port, what was expected and what came.
        """
        if type(data) is np.ndarray and data.dtype == self._dtype and data.shape == self._passed:
            return data
        array = self._text(data) if self._is_text else self._numbers(data)
        if not self._fits(array.shape):
            raise EngineError(self._message(_described(data), "of that shape"))
        self._passed = array.shape
        return array

    def gather(self, items: Sequence[Array], size: int) -> Array:
        """Returns ``items`` as one C-contiguous array of ``size`` rows; the rest is zeros.

        The array comes from the pool. A single item that fits as it is gives a view of it.
        """
        first = items[0]
        if size == 1 and first.dtype == self._dtype and first.flags.c_contiguous:
            return first[np.newaxis]
        if self._is_text:
            staged: Array = np.full((size, *first.shape), b"", object)
        else:
            staged = empty((size, *first.shape), self._dtype)
        for row, item in enumerate(items):
            staged[row] = item
        if not self._is_text:
            staged[len(items) :] = 0
        return staged

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
