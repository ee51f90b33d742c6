"""JPEG decoding on the GPU: NVIDIA's nvJPEG through torchvision.

torchvision allocates the pixels for the current stream, but writes them on its own stream, which
does not wait for the current stream.

PyTorch's allocator reuses a block as soon as Python has freed it, because work on one stream runs
in order. The library nvJPEG would then overwrite images that the current stream has not read yet.
Therefore the pixels are allocated for a private stream. ``record_stream`` names the stream that
reads them, and the allocator waits for this stream.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from modelflow.device.torch_memory import load_torch, make_private_stream
from modelflow.errors import MissingDependencyError

__all__ = ["decode_jpegs", "load_torchvision_io"]


def load_torchvision_io() -> Any:
    """Returns the module ``torchvision.io``.

    Raises:
        MissingDependencyError: torchvision is not installed.
    """
    try:
        import torchvision.io
    except ModuleNotFoundError as error:
        raise MissingDependencyError("torchvision", "cuda", "image_decoder on 'cuda'") from error
    return torchvision.io


def decode_jpegs(encoded: Sequence[Any], is_gray: bool, device: Any) -> list[Any]:
    """Returns JPEGs as uint8 tensors on a CUDA device: RGB (3, H, W), or gray (1, H, W).

    Args:
        encoded: uint8 tensors (N,) on the CPU.
        is_gray: Whether to decode one channel instead of three.
        device: The ``torch.device``.

    Raises:
        RuntimeError: a JPEG does not decode.
        torch.cuda.OutOfMemoryError: the device has no memory for them.
    """
    io, torch = load_torchvision_io(), load_torch()
    mode = io.ImageReadMode.GRAY if is_gray else io.ImageReadMode.RGB
    reader, own = torch.cuda.current_stream(device), _memory_stream(device)
    try:
        with torch.cuda.stream(own):
            found: list[Any] = io.decode_jpeg(list(encoded), mode=mode, device=device)
    except RuntimeError as error:
        if "out of memory" in str(error):  # torchvision raises one class for all errors
            raise torch.cuda.OutOfMemoryError(str(error)) from error
        raise
    reader.wait_stream(own)
    for tensor in found:
        tensor.record_stream(reader)
    return found


@cache
def _memory_stream(device: Any) -> Any:
    """Returns a stream without work, for which the pixels are allocated."""
    return make_private_stream(device)
