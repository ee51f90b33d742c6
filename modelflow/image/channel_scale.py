"""``(x - mean) * scale`` a channel, in float32, for packed and planar data."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device import empty
from modelflow.image.image import check_size

__all__ = ["ChannelScale"]

Values = npt.NDArray[np.float32]


class ChannelScale:
    """Subtracts a mean and multiplies by a factor, channel by channel.

    The result is that of NumPy's ``(x.astype(float32) - mean) * scale`` with float32 values. One
    value counts for every channel; a mean of zeros and factors of one are left out, whatever their
    number. For one thread at a time.
    """

    def __init__(self, mean: Sequence[float] = (), scale: Sequence[float] = ()) -> None:
        """Takes one value a channel each; empty: none."""
        self._mean = np.array(mean, np.float32) if any(value != 0 for value in mean) else None
        self._scale = np.array(scale, np.float32) if any(value != 1 for value in scale) else None
        self._rows: dict[int, tuple[Values | None, Values | None]] = {}

    def read(self, buffer: Buffer, where: str = "in_data") -> npt.NDArray[np.float32]:
        """Returns the scaled data of a buffer, in a new array of the same shape.

        The channels are the axis that the meta ``layout`` says: the last (``hwc``, the default),
        or the third from the end (``chw``).

        Raises:
            ValueError: no array of numbers, meta that contradict it, or values that do not fit its
                channels.
        """
        data = buffer.data
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "buif" or data.ndim == 0:
            found = f"a {data.dtype} array" if isinstance(data, np.ndarray) else type(data).__name__
            message = f"{where}: got {found}; expected an array of numbers"
            raise ValueError(message)
        layout = _layout(buffer, where)
        if data.ndim == 3:
            channel, height, width = data.shape if layout == "chw" else _chw(data.shape)
            check_size(buffer, (width, height, channel), where)
        return self.apply(data, layout, where)

    def apply(
        self, data: npt.NDArray[np.generic], layout: str, where: str = "in_data"
    ) -> npt.NDArray[np.float32]:
        """Returns the scaled ``data``; see `read`."""
        channels = 1 if data.ndim == 2 else data.shape[-3 if layout == "chw" else -1]
        self._check(channels, data, layout, where)
        out = empty(data.shape, np.float32)
        if layout == "chw" and data.ndim > 2:
            mean, scale = (_as_planes(v) for v in (self._mean, self._scale))
            _scale(data, mean, scale, out)
            return out
        # Rows of all channels side by side: three numbers at a time would be five times slower.
        data = np.ascontiguousarray(data)
        width = data.shape[-2] * channels if data.ndim > 2 else data.shape[-1]
        mean, scale = self._rows_of(width)
        shape = (data.size // width if width else 0, width)
        _scale(data.reshape(shape), mean, scale, out.reshape(shape))
        return out

    def _check(self, channels: int, data: npt.NDArray[np.generic], layout: str, where: str) -> None:
        for name, values in (
            ("mean", self._mean),
            ("standard_deviation_inverse", self._scale),
        ):
            if values is not None and len(values) not in (1, channels):
                message = (
                    f"{where}: got {channels} channels (shape {data.shape}, layout {layout!r}) for "
                    f"{len(values)} values of {name!r}; expected one value a channel"
                )
                raise ValueError(message)

    def _rows_of(self, width: int) -> tuple[Values | None, Values | None]:
        if width not in self._rows:
            if len(self._rows) > 16:  # images of ever new widths are not to pile up rows
                self._rows.clear()
            self._rows[width] = (_tiled(self._mean, width), _tiled(self._scale, width))
        return self._rows[width]


def _chw(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[2], shape[0], shape[1]


def _layout(buffer: Buffer, where: str) -> str:
    layout, pix_fmt = buffer.get("layout"), buffer.get("pix_fmt")
    if pix_fmt == "nv12":
        message = f"{where}: got pix_fmt 'nv12'; expected bgr, rgb or gray"
        raise ValueError(message)
    if layout is None:
        return "chw" if pix_fmt in ("bgrp", "rgbp") else "hwc"
    if layout not in ("hwc", "chw"):
        message = f"{where}: got layout {layout!r}; expected 'hwc' or 'chw'"
        raise ValueError(message)
    return str(layout)


def _tiled(values: Values | None, width: int) -> Values | None:
    if values is None or len(values) == 1:
        return values
    return np.tile(values, width // len(values))


def _as_planes(values: Values | None) -> Values | None:
    return None if values is None else values[:, None, None]


def _scale(
    data: npt.NDArray[np.generic], mean: Values | None, scale: Values | None, out: Values
) -> None:
    if np.result_type(data.dtype, np.float32) != np.float32:
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
