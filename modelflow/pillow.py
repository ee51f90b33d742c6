"""Pillow's images as arrays, and arrays as Pillow's images. Pillow is loaded only where it is used.

A Pillow image of mode ``RGB`` becomes uint8 (H, W, 3) in the order blue, green, red, as
``image_decoder`` gives it; one of mode ``L`` becomes (H, W, 1).
"""

import struct
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from modelflow.errors import MissingDependencyError
from modelflow.pixel_format import PLANAR

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FILTERS", "UNREADABLE", "image_of", "is_pillow", "pillow_image", "pixels_of"]

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
        package = "pillow"
        raise MissingDependencyError(package, "pillow", needed_for) from error
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
        message = (
            f"got a Pillow image of mode {image.mode!r}, whose values have more than 8 bits; "
            "expected one of 'RGB', 'L' or what converts to them: scale it, then "
            "image.convert('L')"
        )
        raise ValueError(message)
    try:
        upright = ImageOps.exif_transpose(image) if is_turned else image
        if upright.mode in ("1", "L", "LA", "La"):
            return np.array(upright.convert("L"))[:, :, None], "gray"
        if "transparency" in upright.info:  # else Pillow warns of palettes with several
            upright = upright.convert("RGBA")
        pixels = np.asarray(upright.convert("RGB"))
    except UNREADABLE as error:  # a file is decoded when its pixels are asked for
        message = f"got a Pillow image that cannot be read: {error}"
        raise ValueError(message) from error
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
        message = (
            f"got {got}{of_format}; expected a uint8 image (H, W, 3) or (H, W, 1) of bgr, rgb or "
            "gray (a color_convert makes one of nv12; image_encoder or a unit of yours of others)"
        )
        raise ValueError(message)
    if pixels.shape[2] == 1:
        gray: Image = images.fromarray(np.ascontiguousarray(pixels[:, :, 0]))
        return gray
    is_rgb = pix_fmt in ("rgb", "rgbp")
    shown: Image = images.fromarray(np.ascontiguousarray(pixels if is_rgb else pixels[:, :, ::-1]))
    return shown
