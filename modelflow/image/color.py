"""Converts between pixel formats with OpenCV's arithmetic."""

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from modelflow.device import empty
from modelflow.image.image import Image
from modelflow.image.opencv import opencv

PixFmt = Literal["bgr", "rgb", "gray", "nv12", "bgrp", "rgbp"]
PIX_FMTS: tuple[str, ...] = get_args(PixFmt)


def convert_color(image: Image, pix_fmt: str, layout: str | None = None) -> Image:
    """Returns ``image`` in another pixel format and layout, or ``image`` if nothing changes.

    Args:
        image: The image.
        pix_fmt: One of `PIX_FMTS`.
        layout: ``hwc`` or ``chw``. The default is ``chw`` for ``bgrp`` and ``rgbp``, else the
            layout of ``image``. The format nv12 has no layout.

    Raises:
        ValueError: the target is nv12, and the width or height is odd.
    """
    if pix_fmt in ("bgrp", "rgbp"):
        layout = "chw"
    layout = layout or image.layout
    source, target = image.pix_fmt.removesuffix("p"), pix_fmt.removesuffix("p")
    if source == target and layout != image.layout:
        return _move(image, pix_fmt)
    if source == target:
        return image if image.pix_fmt == pix_fmt else Image(image.data, pix_fmt, image.layout)
    packed = image.data if not image.is_planar else _move(image, source).data
    if target == "nv12":
        return Image(_to_nv12(packed, source), "nv12")
    channel = 1 if target == "gray" else 3
    out = empty((image.height, image.width, channel))
    cv2 = opencv()
    code = f"yuv2{target}_nv12" if source == "nv12" else f"{source}2{target}"
    cv2.cvtColor(packed, getattr(cv2, f"COLOR_{code.upper()}"), dst=out)
    converted = Image(out, target)
    return converted if layout == "hwc" else _move(converted, pix_fmt)


def check_nv12_size(width: int, height: int) -> None:
    """Raises `ValueError` for an odd width or height, which nv12 does not allow."""
    if height % 2 or width % 2:
        raise ValueError(
            f"got an image of {width} x {height} pixels; expected an even width and height for nv12"
        )


def _move(image: Image, pix_fmt: str) -> Image:
    """Returns the image in the other of the two layouts."""
    cv2 = opencv()
    if image.is_planar:
        packed = empty((image.height, image.width, image.channel))
        cv2.merge(list(image.data), dst=packed)
        return Image(packed, pix_fmt, "hwc")
    planar = empty((image.channel, image.height, image.width))
    cv2.split(image.data, list(planar))
    return Image(planar, pix_fmt, "chw")


def _to_nv12(packed: npt.NDArray[np.uint8], source: str) -> npt.NDArray[np.uint8]:
    height, width = packed.shape[:2]
    check_nv12_size(width, height)
    cv2 = opencv()
    if source == "gray":
        packed, source = cv2.cvtColor(packed, cv2.COLOR_GRAY2BGR), "bgr"
    code = cv2.COLOR_BGR2YUV_I420 if source == "bgr" else cv2.COLOR_RGB2YUV_I420
    planes = cv2.cvtColor(packed, code)
    out = empty((height * 3 // 2, width))
    out[:height] = planes[:height]
    chroma = out[height:].reshape(-1)
    u, v = planes[height:].reshape(2, -1)
    chroma[0::2], chroma[1::2] = u, v
    return out
