"""Converts between pixel formats with the fixed-point arithmetic of OpenCV's ``cvtColor``.

The constants are OpenCV's: ITU-R BT.601, gray in 1/2^15, YUV in 1/2^20.
"""

from typing import Any

from modelflow.device.torch_memory import load_torch
from modelflow.image.color import check_nv12_size
from modelflow.image.tensor.batch import ImageBatch

_GRAY_R, _GRAY_G, _GRAY_B, _GRAY_BITS = 9798, 19235, 3735, 15
_BITS = 20
# YUV to RGB.
_Y, _UB, _UG, _VG, _VR = 1220542, 2116026, -409993, -852492, 1673527
# RGB to YUV, with the rows Y, U, V and the columns R, G, B.
_TO_YUV = (
    (269484, 528482, 102760),
    (-155188, -305135, 460324),
    (460324, -385875, -74448),
)


def convert_images(batch: ImageBatch, pix_fmt: str, layout: str | None = None) -> ImageBatch:
    """Returns images in another pixel format and layout, or ``batch`` if nothing changes.

    The arguments are those of `modelflow.image.convert_color`.

    Raises:
        ValueError: the target is nv12, and the width or height is odd.
    """
    if pix_fmt in ("bgrp", "rgbp"):
        layout = "chw"
    layout = layout or batch.layout
    source, target = batch.pix_fmt.removesuffix("p"), pix_fmt.removesuffix("p")
    if source == target:
        if layout == batch.layout:
            return batch if batch.pix_fmt == pix_fmt else ImageBatch(batch.data, pix_fmt, layout)
        return _make(batch.nchw, pix_fmt, layout)
    if target == "nv12":
        check_nv12_size(batch.width, batch.height)
        return ImageBatch(_to_nv12(_rgb(batch)), "nv12")
    if target == "gray":
        return _make(_gray(batch), pix_fmt, layout)
    rgb = _rgb(batch)
    return _make(rgb if target == "rgb" else rgb.flip(1), pix_fmt, layout)


def _make(nchw: Any, pix_fmt: str, layout: str) -> ImageBatch:
    data = nchw if layout == "chw" else nchw.permute(0, 2, 3, 1)
    return ImageBatch(data.contiguous(), pix_fmt, layout)


def _rgb(batch: ImageBatch) -> Any:
    """Returns (N, 3, H, W) in the order R, G, B."""
    source = batch.pix_fmt.removesuffix("p")
    if source == "nv12":
        return _from_nv12(batch)
    if source == "gray":
        return batch.nchw.expand(-1, 3, -1, -1)
    return batch.nchw if source == "rgb" else batch.nchw.flip(1)


def _gray(batch: ImageBatch) -> Any:
    torch = load_torch()
    if batch.pix_fmt == "nv12":
        return batch.data[:, None, : batch.height]
    red, green, blue = _rgb(batch).to(torch.int32).unbind(1)
    total = red * _GRAY_R + green * _GRAY_G + blue * _GRAY_B
    return ((total + (1 << (_GRAY_BITS - 1))) >> _GRAY_BITS).to(torch.uint8)[:, None]


def _from_nv12(batch: ImageBatch) -> Any:
    torch = load_torch()
    height, width = batch.height, batch.width
    luma = (batch.data[:, :height].to(torch.int32) - 16).clamp_(min=0) * _Y
    chroma = batch.data[:, height:].reshape(-1, height // 2, width // 2, 2).to(torch.int32) - 128
    chroma = chroma.repeat_interleave(2, 1).repeat_interleave(2, 2)
    u, v = chroma.unbind(3)
    half = 1 << (_BITS - 1)
    channels = [
        (luma + (v * _VR + half)) >> _BITS,
        (luma + (v * _VG + u * _UG + half)) >> _BITS,
        (luma + (u * _UB + half)) >> _BITS,
    ]
    return torch.stack(channels, 1).clamp_(0, 255).to(torch.uint8)


def _to_nv12(rgb: Any) -> Any:
    torch = load_torch()
    count, _, height, width = rgb.shape
    values = rgb.to(torch.int32)
    half = 1 << (_BITS - 1)
    y, u, v = (
        (sum(c * values[:, i] for i, c in enumerate(row)), offset)
        for row, offset in zip(_TO_YUV, (16, 128, 128), strict=True)
    )
    out = torch.empty((count, height * 3 // 2, width), dtype=torch.uint8, device=rgb.device)
    out[:, :height] = ((y[0] + half + (y[1] << _BITS)) >> _BITS).clamp_(0, 255)
    chroma = torch.stack([total[:, ::2, ::2] for total, _ in (u, v)], 3)
    chroma = ((chroma + half + (128 << _BITS)) >> _BITS).clamp_(0, 255)
    out[:, height:] = chroma.reshape(count, height // 2, width)
    return out
