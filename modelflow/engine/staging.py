"""Turns items into the array that an engine reads: checks on arrival, one copy per batch."""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.device import CPU, Device, memory_of
from modelflow.errors import ItemRefusedError
from modelflow.wire.tensor import TensorSpec, has_shape, shape_text, view

Array = npt.NDArray[Any]

# Python's own numbers have no NumPy type yet.
_UNTYPED = (list, tuple, int, float)


class InputPort:
    """An input of an inference unit: checks items, and gathers them into one staging array.

    Safe from any thread.
    """

    def __init__(
        self,
        unit: str,
        tensor: TensorSpec,
        is_cast_allowed: bool,
        device: Device = CPU,
        text_type: type[bytes | str] = bytes,
    ) -> None:
        """Takes the expectations of a model input.

        Args:
            unit: The unit's name, for messages.
            tensor: The type and shape that the model expects.
            is_cast_allowed: Whether numbers of a wider type are converted.
            device: The device that holds the input.
            text_type: The type of the elements of a text input.
        """
        self.name = tensor.name
        self.is_batched = tensor.is_batched is not False
        """Whether each item has its own value. If false, all items of a call share one value."""
        self._unit = unit
        self._tensor = tensor
        self._dtype = tensor.dtype
        self._is_text = tensor.dtype == object
        self._text_type = text_type
        self._is_cast_allowed = is_cast_allowed
        self._device = device
        self._memory = memory_of(device.kind)
        # The shape that passed last. Most batches contain one shape only.
        self._passed: tuple[int, ...] | None = None

    def arrive(self, data: Any, meta_shape: Any = None) -> Any:
        """Returns an item as an array that fits the model, without copying an array that fits.

        An array on the model's device stays on the device. Bytes and flat arrays that fill the item
        exactly become views in the item's shape.

        Args:
            data: The item's data.
            meta_shape: The item's meta ``shape``, for `modelflow.wire.tensor`.

        Raises:
            ItemRefusedError: The data does not fit. The text names unit, port, expectation and
                data.
        """
        if type(data) is np.ndarray:
            if data.dtype == self._dtype and data.shape == self._passed:
                return self._texts(data) if self._is_text else data
        elif self._device.kind != CPU.kind and self._memory.holds(data):
            return self._on_device(data)
        array = self._text(data) if self._is_text else self._numbers(data, meta_shape)
        if not self._fits(array.shape):
            array = self._without_batch_axis(array)
        self._passed = array.shape
        return array

    def gather(self, items: Sequence[Any], size: int, shape: tuple[int, ...] | None = None) -> Any:
        """Returns ``items`` as one C-contiguous array of ``size`` rows on the model's device.

        Args:
            items: Results of `arrive`. For a port that is not batched, equal values.
            size: The length of axis 0. The rows after the items are zeros.
            shape: See `Memory.gather`.
        """
        if not self.is_batched:
            return self._memory.gather(items[:1], 1, self._dtype, self._device)[0, ...]
        staged = self._memory.gather(items, size, self._dtype, self._device, shape)
        if self._text_type is str and self._is_text and size > len(items):
            staged[len(items) :] = ""
        return staged

    def value_of(self, item: Any) -> Hashable:
        """Returns a key of an item's value, to group the items of a port that is not batched."""
        if self._memory.holds(item):
            (item,) = self._memory.download([item])
        return repr(item.tolist()) if item.dtype.hasobject else item.tobytes()

    def describe_unusual(self, item: Any) -> str:
        """Describes the expected item for an unusual shape; empty if the shape is the model's."""
        shape, wanted = tuple(item.shape), self._tensor.item_shape
        if wanted is None or has_shape(shape, wanted):
            return ""
        return self._message(f"{self._dtype.name} {shape_text(shape)}", "of that shape")

    def _on_device(self, data: Any) -> Any:
        dtype, shape = self._memory.dtype_of(data), tuple(data.shape)
        got = f"{data.dtype} {shape_text(shape)} on {self._device}"
        if dtype != self._dtype:
            is_near = dtype is not None and np.can_cast(dtype, self._dtype, "same_kind")
            if not (is_near and self._is_cast_allowed):
                advice = "; convert it before, or set allow_cast=true" if is_near else ""
                raise ItemRefusedError(self._message(got, f"of that type{advice}"))
        if not self._fits(shape):
            raise ItemRefusedError(self._message(got, self._advice(shape)))
        return data

    def _numbers(self, data: Any, meta_shape: Any) -> Array:
        is_fit = isinstance(data, np.ndarray) and self._is_usual(data.shape)
        if not is_fit or data.dtype != self._dtype:
            seen = view(data, meta_shape, self._dtype, self._tensor.item_shape)
            if seen is not None:
                return seen
        try:
            array = np.asarray(data)
        except (ValueError, OverflowError) as error:  # a ragged list
            raise ItemRefusedError(self._message(_describe(data), "of one shape")) from error
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.dtype == self._dtype:
            return array
        is_untyped = isinstance(data, _UNTYPED)
        if is_untyped and not array.size:
            return array.astype(self._dtype)
        is_whole = is_untyped and array.dtype.kind in "iu" and self._dtype.kind in "iu"
        is_near = array.dtype.kind in "biufc" and np.can_cast(array.dtype, self._dtype, "same_kind")
        if is_whole or is_near:
            if not (is_untyped or self._is_cast_allowed):
                advice = "of that type; convert it before, or set allow_cast=true"
                raise ItemRefusedError(self._message(_describe(data), advice))
            return self._convert(array)
        raise ItemRefusedError(self._message(_odd_value(data, self._dtype), "of that type"))

    def _convert(self, array: Array) -> Array:
        """Converts numbers to the port's type; raises ItemRefusedError if a number does not fit."""
        with np.errstate(over="ignore"):
            converted = array.astype(self._dtype)
        if self._dtype.kind in "iu":
            lost = converted.astype(array.dtype) != array
            lost |= (converted < 0) != (array < 0)
        else:
            lost = np.isfinite(array) & ~np.isfinite(converted)
        if lost.any():
            place = tuple(map(int, np.argwhere(lost)[0]))
            where = f" at {list(place)}" if place else ""
            got = f"{array[place]}{where}, which {self._dtype.name} cannot hold"
            raise ItemRefusedError(self._message(got, "whose values it can hold"))
        return converted

    def _text(self, data: Any) -> Array:
        if isinstance(data, bytes | bytearray | memoryview | str):
            array = np.empty((), object)
            array[()] = data if isinstance(data, bytes | str) else bytes(data)
            return self._texts(array)
        array = np.asarray(data)
        if array.dtype.kind in "SUT" or (array.dtype.kind == "f" and not array.size):
            return self._texts(array.astype(object))
        if array.dtype == object:
            return self._texts(array, data)
        raise ItemRefusedError(self._message(_describe(data), "of text (str or bytes)"))

    def _texts(self, array: Array, data: Any = None) -> Array:
        """Converts texts to the model's type; ``data`` is the original item, for messages."""
        if all(type(text) is self._text_type for text in array.flat):
            return array
        texts = np.empty(array.shape, object)
        for place, text in np.ndenumerate(array):
            if not isinstance(text, bytes | str):
                got = _describe(array if data is None else data)
                raise ItemRefusedError(self._message(got, "of text (str or bytes)"))
            texts[place] = self._of_text_type(text)
        return texts

    def _of_text_type(self, text: bytes | str) -> bytes | str:
        if isinstance(text, str):
            return str(text) if self._text_type is str else text.encode()
        if self._text_type is bytes:
            return bytes(text)
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            byte = f"byte {text[error.start]:#x} at {error.start}"
            got = f"{len(text)} bytes that are no UTF-8 ({byte})"
            raise ItemRefusedError(self._message(got, "of UTF-8 text")) from error

    def _fits(self, shape: tuple[int, ...]) -> bool:
        wanted = self._tensor.item_shape
        if wanted is None or not self._tensor.is_shape_checked:
            return True
        return has_shape(shape, wanted)

    def _is_usual(self, shape: tuple[int, ...]) -> bool:
        """Returns True if a shape is the model's, even if that is not checked."""
        wanted = self._tensor.item_shape
        return wanted is None or len(wanted) < 2 or has_shape(shape, wanted)

    def _without_batch_axis(self, array: Array) -> Array:
        """Removes the batch axis of a single row, if the model's batch is fixed to 1."""
        is_row = self._tensor.batch_size == 1 and array.ndim and len(array) == 1
        if is_row and self._fits(array.shape[1:]):
            row: Array = array[0, ...]
            return row
        raise ItemRefusedError(self._message(_describe(array), self._advice(array.shape)))

    def _advice(self, shape: tuple[int, ...]) -> str:
        if len(shape) > 1 and self._fits(shape[1:]):
            return "of that shape: leave the batch axis out"
        # The orders of the axes of an image. With more than three axes a guess would mislead.
        orders = itertools.permutations(range(len(shape))) if 1 < len(shape) <= 3 else ()
        for axes in orders:
            turned = tuple(shape[axis] for axis in axes)
            if self._fits(turned):
                return f"of that shape: transpose it by {axes} to {shape_text(turned)}"
        return "of that shape"

    def _message(self, got: str, advice: str) -> str:
        kind = "text" if self._is_text else self._dtype.name
        shape = self._tensor.item_shape
        expected = kind if shape is None else f"{kind} {shape_text(shape)}"
        return (
            f"unit {self._unit!r}, input {self.name!r}: got {got}; expected {expected}; "
            f"give an item {advice}"
        )


def _odd_value(data: Any, dtype: np.dtype[Any]) -> str:
    """Describes data by its first value that is no number of the type's kind."""
    allowed: tuple[type, ...] = (int,) if dtype.kind in "iu" else (int, float)
    if isinstance(data, list | tuple):
        for place, value in enumerate(_leaves(data)):
            if not isinstance(value, allowed):
                return f"{type(value).__name__} {value!r:.40} (value {place})"
    return _describe(data)


def _leaves(data: Any) -> Iterator[Any]:
    for value in data:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _describe(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"{data.dtype.name} {shape_text(data.shape)}"
    if isinstance(data, bytes | bytearray | memoryview):
        return f"{len(data)} bytes"
    return type(data).__name__
