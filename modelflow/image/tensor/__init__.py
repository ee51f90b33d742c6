"""Batches of images as PyTorch tensors, the base of image units on a GPU.

The same code runs with tensors on the CPU. Importing this package does not load PyTorch.
"""

from modelflow.image.tensor.batch import ImageBatch, crop_images, pad_images, rotate_images
from modelflow.image.tensor.color import convert_images
from modelflow.image.tensor.emit import by_groups, emit_images, emit_scaled, scale_images
from modelflow.image.tensor.resize import resize_images

__all__ = [
    "ImageBatch",
    "by_groups",
    "convert_images",
    "crop_images",
    "emit_images",
    "emit_scaled",
    "pad_images",
    "resize_images",
    "rotate_images",
    "scale_images",
]
