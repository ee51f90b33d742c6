"""Gives pixels in one row, as other frameworks pass them, the shape that their meta name."""

import math
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device import array_dtype
from modelflow.pixels import CHANNELS, PLANAR

_PACKED = {"bgr": 3, "rgb": 3, "gray": 1}


def data_error(where: str, text: str) -> ValueError:
    """Returns the error about the data of a port."""
    return ValueError(f"{where}: {text}")


def is_as_said(buffer: Buffer, shape: tuple[int, ...]) -> bool:
    """Tells whether the meta of a buffer declare a packed image of this shape (H, W, C).

    Images from units always do, and need no further checks.
    """
    meta = buffer._meta
    if meta is None or len(shape) != 3:
        return False
    pix_fmt, layout = meta.get("pix_fmt"), meta.get("layout")
    # Types are checked first, because a foreign object may have an unusual or failing comparison.
    if type(layout) is not str or type(pix_fmt) is not str:
        return False
    return layout == "hwc" and _PACKED.get(pix_fmt) == shape[2]


def unroll(buffer: Buffer, where: str) -> Any:
    """Returns the pixels of a buffer in the shape that its meta name, without a copy.

    Other data is returned unchanged: data that is no row of pixels, or whose meta have no width and
    height. Bytes of another length are returned unchanged as well, because they may be an encoded
    image.

    Args:
        buffer: The buffer. Its data is a uint8 array (N,) of NumPy or of a device, or bytes.
        where: The port, for the message.

    Raises:
        ValueError: a uint8 array (N,) has another number of values than its meta name.
    """
    data, shape = buffer.data, shape_of(buffer)
    if shape is None:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        row = np.frombuffer(data, np.uint8)
        return row.reshape(shape) if row.size == math.prod(shape) else data
    if getattr(data, "ndim", 0) != 1 or array_dtype(data) != np.uint8:
        return data
    if data.shape[0] != math.prod(shape):
        size = " x ".join(map(str, shape))
        raise data_error(
            where,
            f"got {data.shape[0]} values in one row, the meta say {size} = {math.prod(shape)}; "
            "expected meta (width, height, channel, pix_fmt, layout) that fit the array",
        )
    return data.reshape(shape)


def shape_of(buffer: Buffer) -> tuple[int, ...] | None:
    """Returns the shape of an image array that the meta name, or None without such meta.

    The shape is (H, W, C), (C, H, W) with layout ``chw``, or (H * 3 / 2, W) for nv12. C is the meta
    ``channel``, else it follows from ``pix_fmt``, else it is 3.
    """
    width, height, pix_fmt, layout = buffer.get_many("width", "height", "pix_fmt", "layout")
    channel = buffer.get("channel", CHANNELS.get(pix_fmt or "", 3))
    if not all(isinstance(number, int | np.integer) for number in (width, height, channel)):
        return None
    if pix_fmt == "nv12":
        return int(height) * 3 // 2, int(width)
    if layout == "chw" or (layout is None and pix_fmt in PLANAR):
        return int(channel), int(height), int(width)
    return int(height), int(width), int(channel)
