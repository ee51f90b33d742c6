"""Trains the network that classifies the shapes, and writes ``shapes.onnx`` in its own folder.

python graphs/models/shapes/train.py
"""

import sys
import warnings
from pathlib import Path

import cv2
import numpy as np
import torch
from shapes import NAMES, draw
from torch import nn

HERE = Path(__file__).resolve().parent
SIDE = 24


def samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns drawn shapes as a detector crops them: float32 (count, 1, 24, 24), and classes."""
    rng = np.random.default_rng(seed)
    images = np.empty((count, 1, SIDE, SIDE), np.float32)
    classes = rng.integers(0, len(NAMES), count)
    for row, number in enumerate(classes):
        ground, ink = int(rng.integers(0, 70)), int(rng.integers(110, 256))
        image = np.full((64, 64), ground, np.uint8)
        centre, radius = map(int, rng.integers(29, 35, 2)), int(rng.integers(16, 26))
        draw(image, NAMES[number], (*centre, radius), ink, float(rng.uniform(0, 360)))
        x, y, w, h = cv2.boundingRect((image > ground).astype(np.uint8))
        margin = int(rng.integers(1, 4))
        part = image[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin]
        small = cv2.resize(part, (SIDE, SIDE))
        images[row, 0] = np.clip(small + rng.normal(0, 6, small.shape), 0, 255) / 255
    return torch.from_numpy(images), torch.from_numpy(classes)


def main() -> None:
    """Trains and checks the network, and writes the file."""
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (SIDE // 4) ** 2, 24),
        nn.ReLU(),
        nn.Linear(24, len(NAMES)),
    )
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    images, classes = samples(6000, seed=1)
    for _ in range(12):
        for rows in torch.randperm(len(images)).split(64):
            loss = nn.functional.cross_entropy(network(images[rows]), classes[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    images, classes = samples(1000, seed=2)
    accuracy = float((network(images).argmax(1) == classes).float().mean())
    if accuracy < 0.97:
        message = f"accuracy {accuracy:.1%} on other drawings; expected 97 % at least"
        raise SystemExit(message)
    whole = nn.Sequential(network, nn.Softmax(1)).eval()
    axes = {"image": {0: "n"}, "scores": {0: "n"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            whole,
            (torch.zeros(2, 1, SIDE, SIDE),),
            str(HERE / "shapes.onnx"),
            dynamo=False,
            input_names=["image"],
            output_names=["scores"],
            dynamic_axes=axes,
        )
    sys.stdout.write(f"accuracy {accuracy:.1%} on 1000 other drawings\n")


if __name__ == "__main__":
    main()
