"""Images whose pixels lie in one row, as other frameworks pass them: their meta tell the shape."""

import math
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device import array_dtype
from modelflow.pixels import CHANNELS, PLANAR

_PACKED = {"bgr": 3, "rgb": 3, "gray": 1}


def data_error(where: str, text: str) -> ValueError:
    """Returns the error that says what is wrong with the data of a port."""
    return ValueError(f"{where}: {text}")


def is_as_said(buffer: Buffer, shape: tuple[int, ...]) -> bool:
    """Tells whether the meta of a buffer say that it is a packed image of this shape (H, W, C).

    As those do of every image that a unit gives: it need not be looked at any closer.
    """
    meta = buffer._meta
    if meta is None or len(shape) != 3:
        return False
    pix_fmt, layout = meta.get("pix_fmt"), meta.get("layout")
    # By type first: what anybody has put into the meta may compare in any way, or not at all.
    if type(layout) is not str or type(pix_fmt) is not str:
        return False
    return layout == "hwc" and _PACKED.get(pix_fmt) == shape[2]


def unroll(buffer: Buffer, where: str) -> Any:
    """Returns the pixels of a buffer in the shape that its meta name; no copy is made.

    Data that is no row of pixels, or whose meta name no width and height, is returned as it is, and
    so are bytes of another number: they may be an encoded image.

    Args:
        buffer: Its data: uint8, (N,), of NumPy or of a device; or bytes.
        where: The port, for the message.

    Raises:
        ValueError: a uint8 array (N,) has another number of pixels than its meta say.
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
    """Returns the shape of an image array that the meta name; None where they do not.

    (H, W, C), under layout ``chw`` (C, H, W), for nv12 (H * 3 / 2, W). C is the meta ``channel``,
    else that of the ``pix_fmt``, else 3.
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
