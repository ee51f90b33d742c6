"""Resizes images as OpenCV or Pillow does.

Nearest neighbours equal OpenCV's bit by bit, because OpenCV itself computes the source of each
pixel. Linear and cubic are PyTorch's, with the same formulas: half-pixel centres, a = -0.75.
PyTorch calculates in float32, OpenCV in fixed point.
Area and Lanczos are products with OpenCV's own weights. OpenCV returns the weights when it resizes
the identity matrix. Pillow's weights, whose filters smooth images that become smaller, are found
the same way.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from modelflow.device.torch_memory import load_torch
from modelflow.image.opencv import Interpolation, interpolation_flag, opencv, own_name
from modelflow.image.tensor.batch import ImageBatch
from modelflow.pixels import FILTERS, pillow_image

_MODES = {
    "inter_linear": "bilinear",
    "inter_linear_exact": "bilinear",
    "inter_cubic": "bicubic",
}
_NEAREST = ("inter_nearest", "inter_nearest_exact")


def resize_images(
    batch: ImageBatch,
    width: int,
    height: int,
    interpolation: Interpolation,
    *,
    antialias: bool = False,
) -> ImageBatch:
    """Returns the images in another size, or ``batch`` if nothing changes.

    Differs from ``cv2.resize``, or from Pillow with ``antialias``, by at most 1 of 255. Pillow's
    cubic and Lanczos differ by at most 4. Nearest neighbours are equal.
    """
    if (width, height) == (batch.width, batch.height):
        return batch
    torch = load_torch()
    flag = interpolation_flag(interpolation)
    name = own_name(interpolation)
    nchw = batch.nchw
    if name in _NEAREST and not antialias:
        for axis, (before, after) in ((2, (batch.height, height)), (3, (batch.width, width))):
            sources = torch.from_numpy(_sources(before, after, flag))
            nchw = nchw.index_select(axis, sources.to(nchw.device, non_blocking=True))
        return batch.with_nchw(nchw)
    nchw = nchw.to(torch.float32)
    if name in _MODES and not antialias:
        mode = _MODES[name]
        values = torch.nn.functional.interpolate(
            nchw, (height, width), mode=mode, align_corners=False, antialias=False
        )
    else:
        if antialias:
            down, across = (
                _pillow_weights(before, after, FILTERS[name])
                for before, after in ((batch.height, height), (batch.width, width))
            )
        else:
            is_grown = name == "inter_area" and (width > batch.width or height > batch.height)
            down = _weights(batch.height, height, flag, is_grown)
            across = _weights(batch.width, width, flag, is_grown)
        down, across = (
            torch.from_numpy(weights).to(nchw.device, non_blocking=True)
            for weights in (down, across)
        )
        lines = nchw @ across.T
        if antialias:  # Pillow stores 8 bits between the two passes
            lines = (lines + 0.5).floor_().clamp_(0, 255)
        values = down @ lines
    return batch.with_nchw(values.round_().clamp_(0, 255).to(torch.uint8))


@lru_cache(maxsize=256)
def _sources(before: int, after: int, flag: int) -> npt.NDArray[np.int64]:
    """Returns for each pixel of a resized line the index of OpenCV's source pixel."""
    line = np.arange(before, dtype=np.float32)[None]
    found: npt.NDArray[np.float32] = opencv().resize(line, (after, 1), interpolation=flag)
    sources: npt.NDArray[np.int64] = found[0].astype(np.int64)
    return sources


@lru_cache(maxsize=32)
def _weights(before: int, after: int, flag: int, is_grown: bool) -> npt.NDArray[np.float32]:
    """Returns the weights (after, before) by which OpenCV resizes a line.

    With ``is_grown`` one axis of the image, not always this one, becomes longer. OpenCV's "area"
    then uses another formula. Twice the rows select this formula, and the result has each row
    twice.
    """
    rows = 2 * before if is_grown else before
    identity = np.eye(before, dtype=np.float32)
    found = opencv().resize(identity, (after, rows), interpolation=flag)[:: 2 if is_grown else 1]
    weights: npt.NDArray[np.float32] = np.ascontiguousarray(found.T)
    return weights


@lru_cache(maxsize=32)
def _pillow_weights(before: int, after: int, name: str) -> npt.NDArray[np.float32]:
    """Returns the weights (after, before) by which Pillow's filter resizes a line."""
    images = pillow_image("resize with antialias=true")
    identity = images.fromarray(np.eye(before, dtype=np.float32))
    found = identity.resize((after, before), images.Resampling[name])
    weights: npt.NDArray[np.float32] = np.ascontiguousarray(np.asarray(found).T)
    return weights
