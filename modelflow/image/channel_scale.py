"""``(x - mean) * scale`` a channel, in float32, for packed and planar data."""

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

    The result is that of NumPy's ``(x.astype(float32) - mean) * scale`` with float32 values. One
    value counts for every channel; a mean of zeros and factors of one are left out, whatever their
    number. For one thread at a time.

    Attributes:
        mean, scale: One value a channel, or one for all; None: nothing to do.
    """

    def __init__(self, mean: Sequence[float] = (), scale: Sequence[float] = ()) -> None:
        """Takes one value a channel each; empty: none."""
        self.mean = np.array(mean, np.float32) if any(value != 0 for value in mean) else None
        self.scale = np.array(scale, np.float32) if any(value != 1 for value in scale) else None
        self._rows: dict[int, tuple[Values | None, Values | None]] = {}
        # As OpenCV takes it for three channels: a number for each of four.
        self._mean_of_three = None
        if self.mean is not None and len(self.mean) in (1, 3):
            self._mean_of_three = (*map(float, np.resize(self.mean, 3)), 0.0)
            opencv()  # now, not with the first image

    def read_all(
        self, buffers: Sequence[Buffer], where: str = "in_data"
    ) -> list[npt.NDArray[np.float32] | ValueError]:
        """Returns the scaled data of each buffer, for one that does not fit what `check` raises.

        The channels are the axis that the meta ``layout`` says: the last (``hwc``, the default),
        or the third from the end (``chw``). See `apply_all`.
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
        """Returns the scaled data of each pair of data and layout, which `check` has found to fit.

        Neighbours of one shape are rows of one new array: who makes a batch of them need not copy
        them again.
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
        """Returns a buffer's data, which may also lie on a device, and its layout.

        Numbers in one row that are as many as the meta of an image say have its shape.

        Raises:
            ValueError: no array of numbers, or values that do not fit its channels.
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
        """Checks that the values fit the channels of data of that shape.

        Raises:
            ValueError: they do not.
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
        """Returns the scaled ``data``, which `check` or `check_channels` has found to fit.

        Args:
            data: Numbers.
            layout: ``hwc`` or ``chw``.
            out: Where to, C-contiguous, of the shape of ``data``; None: a new array.
        """
        channels = _channels(data.shape, layout)
        if out is None:
            out = empty(data.shape, np.float32)
        if layout == "chw" and data.ndim > 2:
            mean, scale = (None if v is None else v[:, None, None] for v in (self.mean, self.scale))
            _scale(data, mean, scale, out)
            return out
        # Rows of all channels side by side: three numbers at a time would be five times slower.
        data = np.ascontiguousarray(data)
        is_subtracted = self._mean_of_three is not None and _is_colour(data)
        if is_subtracted:
            # The same numbers: it calculates in float32, too. NumPy takes twice as long.
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
            if len(self._rows) > 16:  # images of ever new widths are not to pile up rows
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
    """Tells whether it is an image of three channels of 8 bits, side by side."""
    return data.dtype is _UINT8 and data.ndim == 3 and data.shape[2] == 3 and data.size > 0


@cache
def _is_wide(dtype: np.dtype[Any]) -> bool:
    """Tells whether NumPy calculates with such numbers and float32 in more than float32."""
    return np.result_type(dtype, np.float32) != np.float32


def _scale(
    data: npt.NDArray[np.generic], mean: Values | None, scale: Values | None, out: Values
) -> None:
    if _is_wide(data.dtype):
        # NumPy would calculate in float64 and round once, not twice.
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
