"""JPEG decoding on the GPU: NVIDIA's nvJPEG through torchvision."""

from collections.abc import Sequence
from typing import Any

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
    io = load_torchvision_io()
    mode = io.ImageReadMode.GRAY if is_gray else io.ImageReadMode.RGB
    found: list[Any] = io.decode_jpeg(list(encoded), mode=mode, device=device)
    return found
