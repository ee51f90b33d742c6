"""Reads and checks the image of a buffer, and puts an image into a buffer.

`modelflow.pixels` defines to which arrays a format belongs, and which values follow from the array.

The array may be on a device. The checks here are the same for it.
"""

import io
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.buffer import Buffer
from modelflow.device import array_dtype, empty
from modelflow.image.row import data_error, is_as_said, unroll
from modelflow.pixels import CHANNELS, PLANAR, is_ambiguous, is_pillow, pixels_of

_UINT8 = np.dtype(np.uint8)
AMBIGUOUS = (
    "; the array was made of images of several formats: let the unit that makes it say of which, "
    "modelflow.image.like(image, array)"
)
"""The hint for a format that `is_ambiguous`, appended to the error."""


@dataclass(slots=True)  # not frozen: that takes twice as long, and an image makes several objects
class Pixels:
    """Pixels and their format: one image, or several images of one size along a leading axis.

    The fields never change.

    Attributes:
        data: An array of NumPy or of a device. Layout ``hwc`` is (H, W, C), ``chw`` is (C, H, W),
            and nv12 is (H * 3 / 2, W).
        pix_fmt: ``bgr rgb gray nv12``, or ``bgrp rgbp`` (planar).
        layout: ``hwc`` or ``chw``.
    """

    data: Any
    pix_fmt: str
    layout: str = "hwc"

    @property
    def width(self) -> int:
        """The width in pixels."""
        is_last = self.is_planar or self.pix_fmt == "nv12"
        return int(self.data.shape[-1 if is_last else -2])

    @property
    def height(self) -> int:
        """The height in pixels."""
        if self.pix_fmt == "nv12":
            return int(self.data.shape[-2] * 2 // 3)
        return int(self.data.shape[-2 if self.is_planar else -3])

    @property
    def channel(self) -> int:
        """The number of channels; 1 for nv12, whose planes are in one array."""
        return CHANNELS[self.pix_fmt]

    @property
    def is_planar(self) -> bool:
        """Tells whether the channels come before rows and columns."""
        return self.layout == "chw"


class Image(Pixels):
    """One image."""

    __slots__ = ()

    @property
    def size(self) -> tuple[int, int, int]:
        """The width, the height and the number of channels, in this order."""
        if self.layout == "hwc" and self.pix_fmt != "nv12":  # the common case, without computation
            height, width, channel = self.data.shape
            return width, height, channel
        return self.width, self.height, self.channel

    @property
    def planes(self) -> list[npt.NDArray[np.uint8]]:
        """The arrays to pass, in this order, to a function that accepts only packed arrays.

        A packed image is one array. Each plane of a planar image is an array (H, W, 1).
        """
        return [plane[:, :, None] for plane in self.data] if self.layout == "chw" else [self.data]

    def like(self, width: int, height: int) -> "Image":
        """Returns an uninitialised image of another size and the same format."""
        data = empty_image(width, height, self.channel, self.layout)
        return Image(data, self.pix_fmt, self.layout)

    def to_buffer(self) -> Buffer:
        """Returns a buffer with this image and its format."""
        buffer = Buffer(self.data)
        # set directly, because the constructor would copy the mapping
        buffer._meta = {"pix_fmt": self.pix_fmt, "layout": self.layout}
        return buffer


def like(image: Buffer, array: Any) -> Buffer:
    """Returns a buffer of an array with the format and the other meta of an image.

    A unit with two images as inputs uses it to name the image that its result is made from. A
    stream unit whose output count differs from its input count uses it to name the frame::

        ctx.emit([like(frame, drawn)])

    Args:
        image: The image whose ``pix_fmt``, ``layout`` and other meta the buffer gets.
        array: A uint8 array with the axes and channels of that format.
    """
    read = read_image(image, allow_nv12=True)
    buffer = Image(array, read.pix_fmt, read.layout).to_buffer()
    buffer.inherit_meta(image)
    return buffer


def empty_image(
    width: int, height: int, channel: int, layout: str = "hwc"
) -> npt.NDArray[np.uint8]:
    """Returns an uninitialised image array from the pool of host memory."""
    shape = (channel, height, width) if layout == "chw" else (height, width, channel)
    return empty(shape, np.uint8)


def read_image(buffer: Buffer, where: str = "in_image", *, allow_nv12: bool = False) -> Image:
    """Reads the image of a buffer without a copy of its pixels.

    Without a format an array is packed BGR, or gray if it has one channel or two axes. The size is
    that of the array, and width and height in the meta are ignored. Pixels in one row (uint8, or
    bytes) get the shape that the meta name: see `unroll`. A Pillow image is turned upright and
    copied to bgr or gray.

    Args:
        buffer: The buffer.
        where: The port, for messages.
        allow_nv12: Whether the caller can process nv12.

    Raises:
        ValueError: the data is no image, or does not fit its format. The message names the expected
            form.
    """
    data = buffer.data
    if (
        type(data) is np.ndarray
        and data.dtype is _UINT8
        and data.size
        and is_as_said(buffer, data.shape)
    ):
        return Image(data, buffer.get("pix_fmt"))
    return _read_with_care(buffer, where, allow_nv12)


def _read_with_care(buffer: Buffer, where: str, allow_nv12: bool) -> Image:
    if is_pillow(buffer.data):
        return image_of_pillow(buffer.data, where)
    data = unroll(buffer, where)
    dtype = array_dtype(data)
    if dtype is None:
        raise data_error(
            where, f"got {_kind(data)}; expected a uint8 array of an image{_hint(data)}"
        )
    if dtype != np.uint8:
        raise data_error(where, f"got a {dtype} array; expected uint8")
    if data.ndim not in (2, 3) or 0 in data.shape:
        raise data_error(
            where,
            f"got an array of shape {tuple(data.shape)}; expected an image (H, W, C) or (C, H, W)",
        )
    pix_fmt = buffer.get("pix_fmt")
    if pix_fmt == "nv12":
        return _read_nv12(data, where, allow_nv12)
    return _read_packed_or_planar(data, pix_fmt, buffer.get("layout"), where)


def image_of_pillow(data: Any, where: str, *, is_turned: bool = True) -> Image:
    """Returns a Pillow image as a packed bgr or gray image.

    Args:
        data: The image.
        where: The port, for messages.
        is_turned: Whether to turn the image upright by its EXIF orientation.

    Raises:
        ValueError: the image cannot be read, or has more than 8 bits a value.
    """
    try:
        return Image(*pixels_of(data, is_turned=is_turned))
    except ValueError as error:
        raise data_error(where, f"{error}") from error


def _read_nv12(data: npt.NDArray[Any], where: str, is_allowed: bool) -> Image:
    if not is_allowed:
        raise data_error(
            where,
            "got pix_fmt 'nv12'; expected bgr, rgb or gray; "
            "put a color_convert with out_pix_fmt=bgr before it",
        )
    if data.ndim != 2 or data.shape[0] % 3 or data.shape[1] % 2:
        raise data_error(
            where,
            f"got an array of shape {tuple(data.shape)} for pix_fmt 'nv12'; "
            "expected (H * 3 / 2, W) with H and W even",
        )
    return Image(data, "nv12")


def _read_packed_or_planar(data: npt.NDArray[Any], pix_fmt: Any, layout: Any, where: str) -> Image:
    if pix_fmt is not None and pix_fmt not in CHANNELS:
        hint = AMBIGUOUS if is_ambiguous(pix_fmt) else ""
        raise data_error(
            where, f"got pix_fmt {pix_fmt!r}; expected one of {', '.join(CHANNELS)}{hint}"
        )
    if layout not in (None, "hwc", "chw") or (layout == "hwc" and pix_fmt in PLANAR):
        expected = "'chw'" if pix_fmt in PLANAR else "'hwc' or 'chw'"
        raise data_error(where, f"got layout {layout!r}; expected {expected}")
    layout = layout or ("chw" if pix_fmt in PLANAR else "hwc")
    if data.ndim == 2:
        data = data[None] if layout == "chw" else data[:, :, None]
    channel = data.shape[0 if layout == "chw" else 2]
    pix_fmt = pix_fmt or {1: "gray", 3: "bgr"}.get(channel)
    if CHANNELS.get(pix_fmt or "") != channel:
        expected = f"{CHANNELS[pix_fmt]} for pix_fmt {pix_fmt!r}" if pix_fmt else "1 or 3"
        raise data_error(
            where,
            f"got an array of shape {tuple(data.shape)} under layout {layout!r}, which is "
            f"{channel} channels; expected {expected}; is the meta 'layout' right?",
        )
    return Image(data, pix_fmt, layout)


def _kind(data: Any) -> str:
    if isinstance(data, bytes | bytearray | memoryview):
        return f"{len(data)} bytes"
    return "nothing" if data is None else type(data).__name__


def _hint(data: Any) -> str:
    is_encoded = isinstance(data, bytes | bytearray | memoryview | os.PathLike | io.IOBase)
    return "; put an image_decoder before it" if is_encoded else ""
