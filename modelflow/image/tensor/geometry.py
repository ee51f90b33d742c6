"""Cutting out, padding and turning."""

from collections.abc import Sequence

from modelflow.device.torch_memory import load_torch
from modelflow.image.tensor.batch import ImageBatch


def cropped(batch: ImageBatch, x: int, y: int, width: int, height: int) -> ImageBatch:
    """Returns a region of each image, copied so that the whole need not stay in memory."""
    return batch.with_nchw(batch.nchw[:, :, y : y + height, x : x + width].clone())


def padded(
    batch: ImageBatch, x: int, y: int, width: int, height: int, colour: Sequence[int]
) -> ImageBatch:
    """Returns the images at (x, y) in larger ones of one colour, a value a channel."""
    if (width, height) == (batch.width, batch.height):
        return batch
    torch = load_torch()
    fill = torch.tensor(colour, dtype=torch.uint8, device=batch.data.device)
    shape = (len(batch.data), batch.channel, height, width)
    nchw = fill[None, :, None, None].expand(shape).clone()
    nchw[:, :, y : y + batch.height, x : x + batch.width] = batch.nchw
    return batch.with_nchw(nchw)


def turned(batch: ImageBatch, angle: int) -> ImageBatch:
    """Returns the images turned clockwise by 0, 90, 180 or 270 degrees."""
    if not angle:
        return batch
    return batch.with_nchw(load_torch().rot90(batch.nchw, -angle // 90, (2, 3)))
