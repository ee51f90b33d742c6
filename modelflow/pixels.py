"""The pixel format of an array, and Pillow's images as arrays and back. Loads Pillow on use.

``pix_fmt`` and ``layout`` say how an array is to be read as an image. They are two keys of a
buffer's meta, set by the unit that made the array; width, height, number of channels and strides
follow from the shape, and are not stored: `size_of` calculates them, and `Buffer.get` asks it.

The format belongs to the array, not to the item. Where a unit gives an array without one, the
runtime gives it that of the input that it was made of (`format_of`), if there is no doubt:

- the array *is* an input's, or is a view of it: that input's;
- all inputs that are images of as many channels are of one format: that one (a unit that resizes
  with OpenCV keeps ``rgb``);
- they are of several: ``pix_fmt`` becomes ``"bgr hwc or rgb hwc"``, which image units refuse;
- it has other channels, or other axes, as scores of a model have: none.

A Pillow image of mode ``RGB`` becomes uint8 (H, W, 3) in the order blue, green, red, as
``image_decoder`` gives it; one of mode ``L`` becomes (H, W, 1).
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
"""The channels of each format; the planes of nv12 lie in one array."""
PLANAR = ("bgrp", "rgbp")
"""The formats whose layout is ``chw`` where nothing else is said."""
FORMAT_KEYS = ("pix_fmt", "layout")
"""The meta that say how an array is to be read."""
SIZE_KEYS = ("width", "height", "channel", "width_stride", "height_stride")
"""The meta that follow from an array and its format; stored where pixels lie in one row."""

# The values of `FORMAT_KEYS`; None where the meta do not have one.
Format = tuple[str | None, str | None]
NO_FORMAT: Format = (None, None)
# Width, height and channels.
Size = tuple[int, int, int]

_OR = " or "


def size_of(data: Any, pix_fmt: Any, layout: Any) -> Size | None:
    """Returns width, height and channels of an array in a format; None: it is no such image.

    Args:
        data: An array of any library; anything else is no image.
        pix_fmt: A key of `CHANNELS`; None: any number of channels.
        layout: ``hwc`` or ``chw``; None: as the format says.
    """
    shape = getattr(data, "shape", None)
    if not isinstance(shape, tuple) or not 2 <= len(shape) <= 3:
        return None
    if type(pix_fmt) is not str and pix_fmt is not None:
        return None
    if type(layout) is not str:  # anybody may have put anything into the meta
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
    """Returns the format, as meta, of what a unit has made of images; nothing: it is none.

    Args:
        data: The array, or its values in one row: an array (N,), or bytes, which get the size, too.
        images: Of each input its data, its format (without one it is said of no other array), and
            its size as of `size_of`; None: not known.
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
    """Tells whether data is an array, or of NumPy's a view of it."""
    if isinstance(data, np.ndarray) and isinstance(array, np.ndarray):
        return data is array or np.may_share_memory(data, array)
    return data is array and hasattr(data, "shape")


def is_ambiguous(pix_fmt: Any) -> bool:
    """Tells whether a format is several, any of which may be an array's."""
    return type(pix_fmt) is str and _OR in pix_fmt


def _could_be(data: Any, fmt: Format, size: Size | None, source: Any) -> bool:
    """Tells whether data can be an image of the format, made of one of that size."""
    pix_fmt, layout = fmt
    if is_ambiguous(pix_fmt):
        return size_of(data, None, layout) is not None
    if pix_fmt is not None and pix_fmt not in CHANNELS:  # rgba, say: of as many channels as it was
        own, theirs = size_of(data, None, layout), size_of(source, None, layout)
        return own is not None and theirs is not None and own[2] == theirs[2]
    if getattr(data, "ndim", 3) < 3 and not _is_bytes(data):  # scores, boxes
        return False
    if _is_row(data):
        pixels = math.prod(size or ())
        return size is not None and len(data) == (pixels * 3 // 2 if pix_fmt == "nv12" else pixels)
    own = size_of(data, pix_fmt, layout)
    # Rows of nv12 that are cut are gray, or nothing: two axes alone do not tell.
    return own is not None and (pix_fmt != "nv12" or size is None or own == size)


def _normalize(fmt: Format) -> Format:
    """Returns a format as it is compared: ``bgrp`` is ``bgr`` in layout ``chw``."""
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


# OpenCV's names of interpolations -> Pillow's filter that smooths what becomes smaller.
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
"""What Pillow's plug-ins raise for files that are broken."""


def is_pillow(data: Any) -> "TypeGuard[Image]":
    """Tells whether data is an image of Pillow's; where nobody has loaded Pillow it is none."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(data, module.Image)


def pillow_image(needed_for: str) -> Any:
    """Returns the module ``PIL.Image``.

    Raises:
        MissingDependencyError: Pillow is not installed; it says what needs it.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError("pillow", "pillow", needed_for) from error
    return Image


def pixels_of(image: "Image", *, is_turned: bool = True) -> tuple[npt.NDArray[np.uint8], str]:
    """Returns the pixels of an image, and ``bgr`` or ``gray``.

    It is turned upright as its EXIF orientation says, if ``is_turned``; what is transparent keeps
    its colour.

    Raises:
        ValueError: its file cannot be read, or its values have more than 8 bits.
    """
    from PIL import ImageOps

    if image.mode.startswith(("I", "F")):
        raise ValueError(
            f"got a Pillow image of mode {image.mode!r}, whose values have more than 8 bits; "
            "expected one of 'RGB', 'L' or what converts to them: scale it, then "
            "image.convert('L')"
        )
    try:
        upright = ImageOps.exif_transpose(image) if is_turned else image
        if upright.mode in ("1", "L", "LA", "La"):
            return np.array(upright.convert("L"))[:, :, None], "gray"
        if "transparency" in upright.info:  # else Pillow warns of palettes with several
            upright = upright.convert("RGBA")
        pixels = np.asarray(upright.convert("RGB"))
    except UNREADABLE as error:  # a file is decoded when its pixels are asked for
        raise ValueError(f"got a Pillow image that cannot be read: {error}") from error
    return np.ascontiguousarray(pixels[:, :, ::-1]), "bgr"


def image_of(data: Any, pix_fmt: str | None, layout: str | None) -> "Image":
    """Returns an image of Pillow's: ``RGB``, or ``L`` of gray.

    Args:
        data: uint8, packed (H, W, C), planar (C, H, W) where format or layout say so, or gray
            (H, W); on the host.
        pix_fmt: ``bgr rgb gray bgrp rgbp``; None: bgr, or gray of one channel.
        layout: ``hwc`` or ``chw``; None: as the format says.

    Raises:
        ValueError: the data is no such image; the message says what it is.
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
            "gray (a color_convert makes one of nv12; image_encoder or a unit of yours of others)"
        )
    if pixels.shape[2] == 1:
        gray: Image = images.fromarray(np.ascontiguousarray(pixels[:, :, 0]))
        return gray
    is_rgb = pix_fmt in ("rgb", "rgbp")
    shown: Image = images.fromarray(np.ascontiguousarray(pixels if is_rgb else pixels[:, :, ::-1]))
    return shown
