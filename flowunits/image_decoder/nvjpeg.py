"""JPEG decoding on the GPU: NVIDIA's nvJPEG through torchvision.

torchvision takes the pixels' memory from the pool of the calling thread's stream, and writes to it
on a stream of its own, which waits for no other. Memory that the calling stream still reads (the
images before, freed by Python but not yet read by the GPU) would be overwritten. So the memory
comes from a stream on which nothing else runs: the allocator then gives it out again only when the
stream that reads it is done (``record_stream``).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from modelflow.device.torch_memory import load_torch
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
        package = "torchvision"
        raise MissingDependencyError(package, "cuda", "image_decoder on 'cuda'") from error
    return torchvision.io


def decode_jpegs(encoded: Sequence[Any], is_gray: bool, device: Any) -> list[Any]:
    """Returns JPEGs as uint8 tensors (3, H, W), RGB, or (1, H, W), on a CUDA device.

    Args:
        encoded: uint8 tensors (N,) on the CPU.
        is_gray: One channel instead of three.
        device: The ``torch.device``.

    Raises:
        RuntimeError: one of them does not decode.
    """
    io, torch = load_torchvision_io(), load_torch()
    mode = io.ImageReadMode.GRAY if is_gray else io.ImageReadMode.RGB
    reader, own = torch.cuda.current_stream(device), _memory_stream(device)
    with torch.cuda.stream(own):
        found: list[Any] = io.decode_jpeg(list(encoded), mode=mode, device=device)
    reader.wait_stream(own)
    for tensor in found:
        tensor.record_stream(reader)
    return found


@cache
def _memory_stream(device: Any) -> Any:
    """Returns the stream that the pixels' memory belongs to; nothing runs on it."""
    return load_torch().cuda.Stream(device)
