"""Real ResNets with random weights, written as a model of each engine.

The networks are from He et al., "Deep Residual Learning for Image Recognition" (2015). The stride
is in the 3x3 convolution, as in torchvision. Inputs are float32 (N, 3, 224, 224), and Keras's are
(N, 224, 224, 3). Outputs are 1000 scores.
"""

import warnings
from pathlib import Path
from typing import Any

__all__ = [
    "ITEM_SHAPES",
    "torch_resnet",
    "write_keras",
    "write_resnet",
    "write_small",
    "write_torch",
]

ITEM_SHAPES = {"tensorflow": (224, 224, 3), "onnx": (3, 224, 224), "torch": (3, 224, 224)}

_BLOCKS = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def torch_resnet(depth: int) -> Any:
    """Returns a ResNet of 26, 50 or 101 layers as a module of PyTorch, ready for inference."""
    import torch
    from torch import nn

    def conv(before: int, after: int, size: int, stride: int = 1) -> list[Any]:
        layer = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
        return [layer, nn.BatchNorm2d(after)]

    class Bottleneck(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            after = 4 * width
            self.way = nn.Sequential(
                *conv(before, width, 1),
                nn.ReLU(inplace=True),
                *conv(width, width, 3, stride),
                nn.ReLU(inplace=True),
                *conv(width, after, 1),
            )
            is_same = before == after and stride == 1
            short = [] if is_same else conv(before, after, 1, stride)
            self.short = nn.Sequential(*short)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.way(x) + self.short(x))

    torch.manual_seed(0)
    layers = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, blocks in enumerate(_BLOCKS[depth]):
        for block in range(blocks):
            width = 64 << stage
            layers.append(Bottleneck(before, width, 2 if stage and not block else 1))
            before = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    return nn.Sequential(*layers).eval()


def write_resnet(engine: str, depth: int, folder: Path, side: int = 224) -> Path:
    """Writes a ResNet for ``engine`` (``tensorflow``, ``onnx``, ``torch``); returns its file.

    ``side``: the width and height of its images, where they are not 224 (onnx and torch).
    """
    if engine == "tensorflow":
        return _write_keras(depth, folder / f"resnet{depth}.keras")
    return write_torch(engine, torch_resnet(depth), folder / f"resnet{depth}", side)


def write_torch(engine: str, network: Any, path: Path, side: int = 224) -> Path:
    """Writes a module for images of that side as TorchScript or ONNX; returns its file.

    Args:
        engine: ``torch`` or ``onnx``.
        network: The module, ready for inference.
        path: The file without its ending.
        side: The width and height of the images.
    """
    import torch

    example = torch.zeros(2, 3, side, side)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which users have
        if engine == "torch":
            torch.jit.save(torch.jit.trace(network, example), f"{path}.pt")
            return path.with_suffix(".pt")
        torch.onnx.export(
            network,
            (example,),
            f"{path}.onnx",
            dynamo=False,
            input_names=["image"],
            output_names=["scores"],
            dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}},
        )
    return path.with_suffix(".onnx")


def write_small(engine: str, folder: Path) -> Path:
    """Writes a small network: a MobileNet for ``tensorflow``, else a ResNet of 26 layers."""
    if engine != "tensorflow":
        return write_resnet(engine, 26, folder)
    return write_keras("MobileNet", folder / "mobilenet.keras")


def _write_keras(depth: int, path: Path) -> Path:
    return write_keras({50: "ResNet50", 101: "ResNet101"}[depth], path)


def write_keras(name: str, path: Path) -> Path:
    """Writes a network of ``keras.applications`` with random weights; returns its file."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    getattr(tf.keras.applications, name)(weights=None).save(path)
    return path
