"""MobileNetV2 as a module of PyTorch, with random or trained weights.

The network is that of Sandler et al., "MobileNetV2" (2018). Inputs are float32 (N, 3, 224, 224),
normalised with ImageNet's mean and deviation. Outputs are 1000 scores.
"""

from pathlib import Path
from typing import Any

__all__ = ["GROUPS", "torch_mobilenet"]

GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, repetitions and first stride of each group, from table 2."""


def torch_mobilenet(weights: Path | None = None) -> Any:
    """Returns the network, ready for inference.

    Args:
        weights: A file of torchvision's weights (``mobilenet_v2-*.pth``). None for random weights.
    """
    import torch
    from torch import nn

    def conv(before: int, after: int, size: int, stride: int = 1, groups: int = 1) -> Any:
        pad = size // 2
        layer = nn.Conv2d(before, after, size, stride, pad, groups=groups, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(after), nn.ReLU6(inplace=True))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
            super().__init__()
            wide = before * expansion
            self.is_short = stride == 1 and before == after
            self.conv = nn.Sequential(
                *([conv(before, wide, 1)] if expansion > 1 else []),
                conv(wide, wide, 3, stride, wide),
                nn.Conv2d(wide, after, 1, bias=False),
                nn.BatchNorm2d(after),
            )

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.is_short else self.conv(x)

    class Network(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers, before = [conv(3, 32, 3, 2)], 32
            for expansion, after, repetitions, first in GROUPS:
                for number in range(repetitions):
                    layers.append(Block(before, after, 1 if number else first, expansion))
                    before = after
            self.features = nn.Sequential(*layers, conv(before, 1280, 1))
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

        def forward(self, x: Any) -> Any:
            return self.classifier(self.features(x).mean((2, 3)))

    torch.manual_seed(0)
    network = Network()
    if weights is not None:
        network.load_state_dict(torch.load(weights, weights_only=True))
    return network.eval()
