"""Images of equal size and format in one tensor, with functions to crop, pad and turn them."""

from collections.abc import Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.device.torch_memory import load_torch, stack_tensors
from modelflow.image.image import Image, Pixels


class ImageBatch(Pixels):
    """N images of equal size and format.

    ``data`` is a uint8 tensor. Layout ``hwc`` is (N, H, W, C), ``chw`` is (N, C, H, W), and nv12 is
    (N, H * 3 / 2, W).
    """

    __slots__ = ()

    @classmethod
    def of(cls, images: Sequence[Image]) -> "ImageBatch":
        """Returns images of equal size and format as a batch; rows of one tensor are not copied."""
        first = images[0]
        return cls(stack_tensors([image.data for image in images]), first.pix_fmt, first.layout)

    @property
    def nchw(self) -> Any:
        """A view of the pixels as (N, C, H, W)."""
        return self.data if self.is_planar else self.data.permute(0, 3, 1, 2)

    def with_nchw(self, nchw: Any) -> "ImageBatch":
        """Returns a batch of this format with other pixels, given as (N, C, H, W)."""
        data = nchw if self.is_planar else nchw.permute(0, 2, 3, 1)
        return ImageBatch(data.contiguous(), self.pix_fmt, self.layout)

    def to_buffers(self) -> list[Buffer]:
        """Returns one buffer for each image, with a view of its pixels and its meta."""
        return [Image(row, self.pix_fmt, self.layout).to_buffer() for row in self.data.unbind(0)]


def crop_images(batch: ImageBatch, x: int, y: int, width: int, height: int) -> ImageBatch:
    """Returns a region of each image. A view would keep the whole images in memory."""
    return batch.with_nchw(batch.nchw[:, :, y : y + height, x : x + width].clone())


def pad_images(
    batch: ImageBatch, x: int, y: int, width: int, height: int, colour: Sequence[int]
) -> ImageBatch:
    """Returns larger images of one colour (a value per channel) with the images at (x, y)."""
    if (width, height) == (batch.width, batch.height):
        return batch
    torch = load_torch()
    fill = torch.tensor(colour, dtype=torch.uint8, device=batch.data.device)
    shape = (len(batch.data), batch.channel, height, width)
    nchw = fill[None, :, None, None].expand(shape).clone()
    nchw[:, :, y : y + batch.height, x : x + batch.width] = batch.nchw
    return batch.with_nchw(nchw)


def rotate_images(batch: ImageBatch, angle: int) -> ImageBatch:
    """Returns the images turned clockwise by 0, 90, 180 or 270 degrees."""
    if not angle:
        return batch
    return batch.with_nchw(load_torch().rot90(batch.nchw, -angle // 90, (2, 3)))
