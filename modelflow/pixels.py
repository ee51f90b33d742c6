"""The pixel formats of arrays, and conversions between arrays and Pillow images.

Pillow is imported on first use.

``pix_fmt`` and ``layout`` define how to read an array as an image. They are two keys of a buffer's
meta, set by the unit that made the array. Width, height, number of channels and strides follow from
the shape, and are not stored. `size_of` calculates them, and `Buffer.get` calls `size_of`.

The format belongs to the array, not to the item. If a unit returns an array without a format,
`format_of` derives the format from the unit's inputs:

- The array *is* an input's array or a view of it: the format of that input.
- All input images with the same number of channels have one format: that format. A unit that
  resizes with OpenCV keeps ``rgb``.
- Such inputs have several formats: ``pix_fmt`` becomes ``"bgr hwc or rgb hwc"``, which image units
  refuse.
- The array has other channels or other axes, as the scores of a model have: no format.

A Pillow image of mode ``RGB`` becomes a uint8 array (H, W, 3) in the order blue, green, red, as
``image_decoder`` makes it. An image of mode ``L`` becomes (H, W, 1).
"""

import math
import struct
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from modelflow.errors import MissingDependencyError

if TYPE_CHECKING:
    from PIL.Image import Image


CHANNELS = {"bgr": 3, "rgb": 3, "bgrp": 3, "rgbp": 3, "gray": 1, "nv12": 1}
"""The number of channels of each format; both planes of nv12 are in one array."""
PLANAR = ("bgrp", "rgbp")
"""The formats whose default layout is ``chw``."""
FORMAT_KEYS = ("pix_fmt", "layout")
"""The meta keys that define how to read an array as an image."""
SIZE_KEYS = ("width", "height", "channel", "width_stride", "height_stride")
"""The meta keys that follow from an array and its format; stored only for one-row data."""

# The values of `FORMAT_KEYS`, with None for a missing key.
Format = tuple[str | None, str | None]
NO_FORMAT: Format = (None, None)
# Width, height and channels.
Size = tuple[int, int, int]

_OR = " or "


def size_of(data: Any, pix_fmt: Any, layout: Any) -> Size | None:
    """Returns width, height and channels of an array, or None if the array has another format.

    Args:
        data: An array of any library. Other objects are no images.
        pix_fmt: A key of `CHANNELS`, or None for any number of channels.
        layout: ``hwc`` or ``chw``, or None for the layout of the format.
    """
    shape = getattr(data, "shape", None)
    if not isinstance(shape, tuple) or not 2 <= len(shape) <= 3:
        return None
    if type(pix_fmt) is not str and pix_fmt is not None:
        return None
    if type(layout) is not str:  # a user's unit can put any object into the meta
        layout = None
    if pix_fmt == "nv12":
        is_nv12 = len(shape) == 2 and shape[0] % 3 == 0 and shape[1] % 2 == 0
        return (shape[1], shape[0] * 2 // 3, 1) if is_nv12 else None
    if len(shape) == 2:
        height, width = shape
        channel = 1
    elif layout == "chw" or (layout is None and pix_fmt in PLANAR):
        channel, height, width = shape
    else:
        height, width, channel = shape
    is_image = pix_fmt is None or CHANNELS.get(pix_fmt) == channel
    return (width, height, channel) if is_image else None


def format_of(data: Any, images: Iterable[tuple[Any, Format, Size | None]]) -> dict[str, Any]:
    """Returns the meta of an array that a unit made from images, or ``{}`` for no image.

    Args:
        data: The array, or its values in one row (an array (N,) or bytes). For one row, the meta
            contain the size, too.
        images: For each input its data, its format, and its size from `size_of` or None. An input
            without a format determines the result only for its own array and views of it.
    """
    found: dict[Format, list[Any]] = {}
    firsts: dict[Format, tuple[Format, Size | None]] = {}
    unknown = []
    for source, fmt, size in images:
        if source is data and data is not None:
            return _meta(data, fmt, size)
        if fmt == NO_FORMAT:
            unknown.append(source)
        elif _could_be(data, fmt, size, source):
            found.setdefault(_normalize(fmt), []).append(source)
            firsts.setdefault(_normalize(fmt), (fmt, size))
    if not found or any(_is_of_array(data, source) for source in unknown):
        return {}
    if len(found) > 1:
        shared = [f for f, arrays in found.items() if any(_is_of_array(data, a) for a in arrays)]
        if len(shared) != 1:
            return {"pix_fmt": _OR.join(" ".join(filter(None, fmt)) for fmt in found)}
        found = {shared[0]: []}
    (only,) = found
    return _meta(data, *firsts[only])


def _is_of_array(data: Any, array: Any) -> bool:
    """Returns whether data is this array or, for NumPy, shares memory with this array."""
    if isinstance(data, np.ndarray) and isinstance(array, np.ndarray):
        return data is array or np.may_share_memory(data, array)
    return data is array and hasattr(data, "shape")


def is_ambiguous(pix_fmt: Any) -> bool:
    """Returns whether a format names several possible formats."""
    return type(pix_fmt) is str and _OR in pix_fmt


def _could_be(data: Any, fmt: Format, size: Size | None, source: Any) -> bool:
    """Returns whether data can be an image of the format, made from an image of that size."""
    pix_fmt, layout = fmt
    if is_ambiguous(pix_fmt):
        return size_of(data, None, layout) is not None
    # rgba, for example: compare the number of channels
    if pix_fmt is not None and pix_fmt not in CHANNELS:
        own, theirs = size_of(data, None, layout), size_of(source, None, layout)
        return own is not None and theirs is not None and own[2] == theirs[2]
    if getattr(data, "ndim", 3) < 3 and not _is_bytes(data):  # scores, boxes
        return False
    if _is_row(data):
        pixels = math.prod(size or ())
        return size is not None and len(data) == (pixels * 3 // 2 if pix_fmt == "nv12" else pixels)
    own = size_of(data, pix_fmt, layout)
    # A part of an nv12 array is gray or no image. Two axes alone do not prove nv12, so compare the
    # size.
    return own is not None and (pix_fmt != "nv12" or size is None or own == size)


def _normalize(fmt: Format) -> Format:
    """Returns a format in a comparable form, with ``bgrp`` as ``bgr`` in layout ``chw``."""
    pix_fmt, layout = fmt
    plain = pix_fmt.removesuffix("p") if pix_fmt in PLANAR else pix_fmt
    return plain, layout or ("chw" if pix_fmt in PLANAR else "hwc")


def _is_row(data: Any) -> bool:
    return isinstance(data, bytes | bytearray | memoryview) or getattr(data, "ndim", 0) == 1


def _is_bytes(data: Any) -> bool:
    return isinstance(data, memoryview) or str(getattr(data, "dtype", "")).endswith("uint8")


def _meta(data: Any, fmt: Format, size: Size | None) -> dict[str, Any]:
    meta: dict[str, Any] = {k: v for k, v in zip(FORMAT_KEYS, fmt, strict=True) if v is not None}
    if meta and size is not None and _is_row(data):
        meta.update(zip(SIZE_KEYS, size, strict=False))
    return meta


# OpenCV's names of interpolations -> Pillow's filters, which smooth images that become smaller.
FILTERS = {
    "inter_linear": "BILINEAR",
    "inter_cubic": "BICUBIC",
    "inter_area": "BOX",
    "inter_lanczos4": "LANCZOS",
}

UNREADABLE = (
    OSError,
    SyntaxError,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
"""The exceptions that Pillow's plug-ins raise for broken files."""


def is_pillow(data: Any) -> "TypeGuard[Image]":
    """Returns whether data is a Pillow image, without importing Pillow."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(data, module.Image)


def pillow_image(needed_for: str) -> Any:
    """Returns the module ``PIL.Image``.

    Raises:
        MissingDependencyError: Pillow is not installed; the message names ``needed_for``.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("pillow", "pillow", needed_for) from error
    return Image


def pixels_of(image: "Image", *, is_turned: bool = True) -> tuple[npt.NDArray[np.uint8], str]:
    """Returns the pixels of an image, and ``bgr`` or ``gray``.

    With ``is_turned``, the image is turned upright by its EXIF orientation. Transparent pixels keep
    their colour.

    Raises:
        ValueError: The file of the image cannot be read, or its values have more than 8 bits.
    """
    from PIL import ImageOps

    if image.mode.startswith(("I", "F")):
        raise ValueError(
            f"got a Pillow image of mode {image.mode!r}, whose values have more than 8 bits; "
            "expected 'RGB', 'L' or a mode with 8 bits. Scale it, then image.convert('L')"
        )
    try:
        upright = ImageOps.exif_transpose(image) if is_turned else image
        if upright.mode in ("1", "L", "LA", "La"):
            return np.array(upright.convert("L"))[:, :, None], "gray"
        if "transparency" in upright.info:  # otherwise Pillow warns for palettes with several
            upright = upright.convert("RGBA")
        pixels = np.asarray(upright.convert("RGB"))
    except UNREADABLE as error:  # Pillow decodes a file on the first access to its pixels
        raise ValueError(f"got a Pillow image that cannot be read: {error}") from error
    return np.ascontiguousarray(pixels[:, :, ::-1]), "bgr"


def image_of(data: Any, pix_fmt: str | None, layout: str | None) -> "Image":
    """Returns a Pillow image of mode ``RGB``, or ``L`` for gray.

    Args:
        data: A uint8 array on the host: packed (H, W, C), gray (H, W), or planar (C, H, W) if
            format or layout say so.
        pix_fmt: ``bgr rgb gray bgrp rgbp``. None for bgr, or for gray with one channel.
        layout: ``hwc`` or ``chw``, or None for the layout of the format.

    Raises:
        ValueError: The data is no such image; the message describes the data.
        MissingDependencyError: Pillow is not installed.
    """
    images = pillow_image("Buffer.to_pil()")
    is_array = isinstance(data, np.ndarray)
    is_known = pix_fmt in (None, "bgr", "rgb", "gray", *PLANAR)
    pixels: Any = data if is_array else np.empty(0)
    if pixels.ndim == 3 and (layout == "chw" or pix_fmt in PLANAR):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    is_image = pixels.ndim == 3 and pixels.dtype == np.uint8 and pixels.shape[2] in (1, 3)
    if not (is_known and is_image and pixels.size):
        got = f"a {data.dtype} array {data.shape}" if is_array else type(data).__name__
        of_format = "" if pix_fmt is None else f" of pix_fmt {pix_fmt!r}"
        raise ValueError(
            f"got {got}{of_format}; expected a uint8 image (H, W, 3) or (H, W, 1) of bgr, rgb or "
            "gray. Convert nv12 with color_convert, other formats with image_encoder or your unit"
        )
    if pixels.shape[2] == 1:
        gray: Image = images.fromarray(np.ascontiguousarray(pixels[:, :, 0]))
        return gray
    is_rgb = pix_fmt in ("rgb", "rgbp")
    shown: Image = images.fromarray(np.ascontiguousarray(pixels if is_rgb else pixels[:, :, ::-1]))
    return shown
