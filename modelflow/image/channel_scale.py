"""Computes ``(x - mean) * scale`` for each channel in float32, for packed and planar data."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device import array_dtype, empty
from modelflow.image.image import AMBIGUOUS
from modelflow.image.opencv import opencv
from modelflow.image.row import data_error, is_as_said, shape_of
from modelflow.pixels import is_ambiguous

Values = npt.NDArray[np.float32]
_UINT8 = np.dtype(np.uint8)


class ChannelScale:
    """Subtracts a mean and multiplies by a factor, channel by channel.

    The result equals NumPy's ``(x.astype(float32) - mean) * scale`` with float32 values. A single
    value counts for all channels. A mean of only zeros and a scale of only ones are left out. Only
    one thread may use an object at a time.

    Attributes:
        mean, scale: One value for each channel, or one for all channels. None if the step is left
            out.
    """

    def __init__(self, mean: Sequence[float] = (), scale: Sequence[float] = ()) -> None:
        """Sets one value for each channel. Without values the step is left out."""
        self.mean = np.array(mean, np.float32) if any(value != 0 for value in mean) else None
        self.scale = np.array(scale, np.float32) if any(value != 1 for value in scale) else None
        self._rows: dict[int, tuple[Values | None, Values | None]] = {}
        # The form that OpenCV needs for three channels: four numbers.
        self._mean_of_three = None
        if self.mean is not None and len(self.mean) in (1, 3):
            self._mean_of_three = (*map(float, np.resize(self.mean, 3)), 0.0)
            opencv()  # imports OpenCV now, and not with the first image

    def read_all(
        self, buffers: Sequence[Buffer], where: str = "in_data"
    ) -> list[npt.NDArray[np.float32] | ValueError]:
        """Returns for each buffer its scaled data, or the error that `check` raises.

        The meta ``layout`` names the axis of the channels: the last (``hwc``, the default), or the
        third from the end (``chw``). See `apply_all`.
        """
        found = [self._check(buffer, where) for buffer in buffers]
        scaled = self.apply_all([one for one in found if type(one) is tuple])
        if len(scaled) == len(found):
            return [*scaled]
        rest = iter(scaled)
        return [one if isinstance(one, ValueError) else next(rest) for one in found]

    def apply_all(
        self, batch: Sequence[tuple[npt.NDArray[np.generic], str]]
    ) -> list[npt.NDArray[np.float32]]:
        """Returns the scaled data of each pair of data and layout, which `check` has accepted.

        Neighbours of equal shape become rows of one new array. A unit that batches them need not
        copy them.
        """
        if len(batch) == 1:
            return [self.apply(*batch[0])]
        scaled = []
        for shape, neighbours in groupby(batch, lambda pair: pair[0].shape):
            pairs = list(neighbours)
            rows = empty((len(pairs), *shape), np.float32)
            for (data, layout), out in zip(pairs, rows, strict=True):
                scaled.append(self.apply(data, layout, out))
        return scaled

    def _check(self, buffer: Buffer, where: str) -> tuple[Any, str] | ValueError:
        try:
            return self.check(buffer, where)
        except ValueError as error:
            return error

    def check(self, buffer: Buffer, where: str = "in_data") -> tuple[Any, str]:
        """Returns a buffer's data, which may also be on a device, and its layout.

        A row of numbers gets the shape that the meta of an image name, if their counts are equal.

        Raises:
            ValueError: the data is no array of numbers, or the values do not fit its channels.
        """
        data = buffer.data
        dtype = array_dtype(data)
        if dtype is None or dtype.kind not in "buif" or data.ndim == 0:
            found = type(data).__name__ if dtype is None else f"a {dtype} array"
            raise data_error(where, f"got {found}; expected an array of numbers")
        if is_as_said(buffer, tuple(data.shape)):
            self.check_channels(data.shape, "hwc", where)
            return data, "hwc"
        named = shape_of(buffer)
        if data.ndim == 1 and named is not None and data.shape[0] == math.prod(named):
            data = data.reshape(named)
        layout, shape = _layout(buffer, where), tuple(data.shape)
        self.check_channels(shape, layout, where)
        return data, layout

    def check_channels(self, shape: tuple[int, ...], layout: str, where: str = "in_data") -> None:
        """Checks that the number of values fits the channels of data of that shape.

        Raises:
            ValueError: the numbers differ.
        """
        channels = _channels(shape, layout)
        for name, values in (("mean", self.mean), ("standard_deviation_inverse", self.scale)):
            if values is not None and len(values) not in (1, channels):
                raise data_error(
                    where,
                    f"got {channels} channels (shape {shape}, layout {layout!r}) for "
                    f"{len(values)} values of {name!r}; expected one value a channel",
                )

    def apply(
        self, data: npt.NDArray[np.generic], layout: str, out: Values | None = None
    ) -> npt.NDArray[np.float32]:
        """Returns the scaled ``data``, which `check` or `check_channels` has accepted.

        Args:
            data: The numbers.
            layout: ``hwc`` or ``chw``.
            out: The C-contiguous target, of the shape of ``data``. None makes a new array.
        """
        channels = _channels(data.shape, layout)
        if out is None:
            out = empty(data.shape, np.float32)
        if layout == "chw" and data.ndim > 2:
            mean, scale = (None if v is None else v[:, None, None] for v in (self.mean, self.scale))
            _scale(data, mean, scale, out)
            return out
        # Computes on rows with the channels of all pixels: three numbers at a time would be five
        # times slower.
        data = np.ascontiguousarray(data)
        is_subtracted = self._mean_of_three is not None and _is_colour(data)
        if is_subtracted:
            # OpenCV calculates in float32, too, and returns the same numbers. NumPy takes twice as
            # long.
            cv2 = opencv()
            cv2.subtract(data, self._mean_of_three, dst=out, dtype=cv2.CV_32F)
            if self.scale is None:
                return out
            data = out
        width = data.shape[-2] * channels if data.ndim > 2 else data.shape[-1]
        mean, scale = self._rows_of(width)
        if is_subtracted:
            mean = None
        shape = (data.size // width if width else 0, width)
        _scale(data.reshape(shape), mean, scale, out.reshape(shape))
        return out

    def _rows_of(self, width: int) -> tuple[Values | None, Values | None]:
        if width not in self._rows:
            if len(self._rows) > 16:  # bounds the cache if images always have new widths
                self._rows.clear()
            self._rows[width] = (_tile(self.mean, width), _tile(self.scale, width))
        return self._rows[width]


def _channels(shape: tuple[int, ...], layout: str) -> int:
    if len(shape) == 2:
        return 1
    return shape[-3 if layout == "chw" and len(shape) > 2 else -1]


def _layout(buffer: Buffer, where: str) -> str:
    layout, pix_fmt = buffer.get("layout"), buffer.get("pix_fmt")
    if pix_fmt == "nv12":
        raise data_error(where, "got pix_fmt 'nv12'; expected bgr, rgb or gray")
    if is_ambiguous(pix_fmt):
        raise data_error(where, f"got pix_fmt {pix_fmt!r}{AMBIGUOUS}")
    if layout is None:
        return "chw" if pix_fmt in ("bgrp", "rgbp") else "hwc"
    if layout not in ("hwc", "chw"):
        raise data_error(where, f"got layout {layout!r}; expected 'hwc' or 'chw'")
    return str(layout)


def _tile(values: Values | None, width: int) -> Values | None:
    if values is None or len(values) == 1:
        return values
    return np.tile(values, width // len(values))


def _is_colour(data: npt.NDArray[np.generic]) -> bool:
    """Tells whether the data is a packed image of three channels of 8 bits."""
    return data.dtype is _UINT8 and data.ndim == 3 and data.shape[2] == 3 and data.size > 0


@cache
def _is_wide(dtype: np.dtype[Any]) -> bool:
    """Tells whether NumPy calculates with this type and float32 in more than float32."""
    return np.result_type(dtype, np.float32) != np.float32


def _scale(
    data: npt.NDArray[np.generic], mean: Values | None, scale: Values | None, out: Values
) -> None:
    if _is_wide(data.dtype):
        # NumPy would calculate in float64 and round once instead of twice.
        np.copyto(out, data, casting="same_kind")
        data = out
    if mean is not None:
        np.subtract(data, mean, out=out)
        data = out
    if scale is not None:
        np.multiply(data, scale, out=out)
        data = out
    if data is not out:
        np.copyto(out, data)
