"""Batches of images as PyTorch tensors, the base of image units on a GPU.

The same code runs with tensors on the CPU. Importing this package does not load PyTorch.
"""

from modelflow.image.tensor.batch import ImageBatch, cropped, padded, turned
from modelflow.image.tensor.color import converted
from modelflow.image.tensor.emit import by_groups, emit_images, emit_scaled, scaled
from modelflow.image.tensor.resize import resized

__all__ = [
    "ImageBatch",
    "by_groups",
    "converted",
    "cropped",
    "emit_images",
    "emit_scaled",
    "padded",
    "resized",
    "scaled",
    "turned",
]
