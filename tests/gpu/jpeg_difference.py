"""How far the pixels of nvJPEG may be from those of libjpeg-turbo."""

from tests.torch_as_cuda import has_gpu

__all__ = ["jpeg_difference"]

# Of 255, in the mean of an image: nvJPEG rounds otherwise, and makes chroma larger otherwise.
_OF_NVJPEG = 3.0


def jpeg_difference():
    """The largest mean difference of two images; 0 where libjpeg-turbo stands for nvJPEG."""
    return _OF_NVJPEG if has_gpu() else 0.0
