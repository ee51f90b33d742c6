"""How far the pixels of nvJPEG may be from those of libjpeg-turbo."""

from tests.torch_as_cuda import has_gpu

__all__ = ["jpeg_difference"]

# The mean over an image, of 255. Enlarging chroma by repetition alone gives 2.1 to 2.5 for ordinary
# pictures, with another DCT 3.1 at quality 1.
_OF_NVJPEG = 5.0


def jpeg_difference():
    """The largest mean difference of two images; 0 where libjpeg-turbo stands for nvJPEG."""
    return _OF_NVJPEG if has_gpu() else 0.0
