"""Trains the network that finds the shapes, and writes ``shape_detect.onnx`` in its own folder.

python graphs/models/shapes/train_detector.py
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from shapes import NAMES, draw
from torch import nn

HERE = Path(__file__).resolve().parent
SIDE, STRIDE = 160, 8
CELLS = SIDE // STRIDE
BARS = 114  # the colour of the bars of letterbox


def picture(rng: np.random.Generator) -> tuple[Any, list[tuple[int, int, int, int]]]:
    """Returns a letterboxed picture of shapes, uint8 (160, 160, 3), and boxes x, y, w, h."""
    image = np.full((SIDE, SIDE, 3), BARS, np.uint8)
    bar = int(rng.choice([0, rng.integers(1, 55)]))
    inner = image[bar : SIDE - bar] if rng.random() < 0.5 else image[:, bar : SIDE - bar]
    inner[...] = rng.integers(0, 71, 3)
    boxes: list[tuple[int, int, int, int]] = []
    taken = np.zeros(inner.shape[:2], np.uint8)
    for _ in range(int(rng.integers(0, 8))):
        radius = int(rng.integers(7, 26))
        if min(inner.shape[:2]) <= 2 * radius + 2:
            continue
        x, y = (int(rng.integers(radius + 1, size - radius)) for size in inner.shape[1::-1])
        near = radius + 3
        around = slice(max(0, y - near), y + near), slice(max(0, x - near), x + near)
        if taken[around].any():
            continue
        ink = rng.integers(110, 256, 3).tolist()
        name, angle = NAMES[int(rng.integers(len(NAMES)))], float(rng.uniform(0, 360))
        mask = np.zeros(inner.shape[:2], np.uint8)
        draw(mask, name, (x, y, radius), 255, angle)
        draw(inner, name, (x, y, radius), ink, angle)
        taken[around] = 1
        left, top, w, h = cv2.boundingRect((mask > 127).astype(np.uint8))
        boxes.append((left, top, w, h))
    noisy = inner.astype(np.float32) + rng.normal(0, rng.uniform(0, 6), inner.shape)
    inner[...] = np.clip(noisy, 0, 255).astype(np.uint8)
    is_wide = inner.shape[0] < SIDE
    return image, [
        (x + (0 if is_wide else bar), y + (bar if is_wide else 0), w, h) for x, y, w, h in boxes
    ]


def targets(boxes: list[tuple[int, int, int, int]]) -> np.ndarray:
    """Returns (6, 20, 20): is a shape here, is the cell counted, and left, top, right, bottom."""
    found = np.zeros((6, CELLS, CELLS), np.float32)
    found[1] = 1
    middles = (np.arange(CELLS) + 0.5) * STRIDE
    for x, y, w, h in boxes:
        near_x, near_y = np.abs(middles - x - w / 2), np.abs(middles - y - h / 2)
        near = np.maximum(near_x[None], near_y[:, None])
        found[1][near < 2 * STRIDE] = 0
        here = near <= max(STRIDE, near.min() + 0.5)
        found[0][here], found[1][here] = 1, 1
        sides = (
            np.broadcast_to(middles - x, (CELLS, CELLS)),
            np.broadcast_to((middles - y)[:, None], (CELLS, CELLS)),
            np.broadcast_to(x + w - middles, (CELLS, CELLS)),
            np.broadcast_to((y + h - middles)[:, None], (CELLS, CELLS)),
        )
        for channel, side in enumerate(sides, 2):
            found[channel][here] = side[here] / STRIDE
    return found


class Detector(nn.Module):
    """Finds shapes: float32 (n, 3, 160, 160), 0..1 -> (n, 5, 400), x y w h in pixels and score."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 12), (12, 16), (16, 24)):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(24, 24, 3, 1, 1), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(24, 5, 1))
        middles = (torch.arange(CELLS) + 0.5) * STRIDE
        self.register_buffer("x", middles.repeat(CELLS)[None])
        self.register_buffer("y", middles.repeat_interleave(CELLS)[None])

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Returns boxes and scores, in the form of YOLO v8 with one class."""
        raw = self.body(image).flatten(2)
        left, top, right, bottom = (nn.functional.softplus(raw[:, k]) * STRIDE for k in range(1, 5))
        x, y = self.x + (right - left) / 2, self.y + (bottom - top) / 2
        return torch.stack([x, y, left + right, top + bottom, raw[:, 0].sigmoid()], 1)


def batch(count: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns pictures and their targets."""
    made = [picture(rng) for _ in range(count)]
    images = np.stack([image for image, _ in made]).transpose(0, 3, 1, 2).astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(np.stack([targets(b) for _, b in made]))


def loss_of(raw: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Returns the loss of the score and of the four sides."""
    here, counted = wanted[:, 0], wanted[:, 1]
    score = nn.functional.binary_cross_entropy_with_logits(raw[:, 0], here, reduction="none")
    sides = nn.functional.softplus(raw[:, 1:])
    far = nn.functional.smooth_l1_loss(sides, wanted[:, 2:], reduction="none", beta=0.2).sum(1)
    return (score * counted).sum() / counted.sum() * 20 + (far * here).sum() / here.sum().clamp(1)


def main() -> None:
    """Trains and checks the network, and writes the file."""
    torch.manual_seed(1)
    network, rng = Detector(), np.random.default_rng(1)
    steps = 900
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps)
    images, wanted = batch(4000, rng)
    for step in range(steps):
        rows = torch.randint(len(images), (24,))
        loss = loss_of(network.body(images[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            sys.stderr.write(f"step {step}: loss {loss.item():.3f}\n")
    network.eval()
    with torch.no_grad():
        images, wanted = batch(300, np.random.default_rng(2))
        scores = network(images)[:, 4].reshape(-1, CELLS, CELLS)
        here = wanted[:, 0] > 0
        there = (wanted[:, 1] > 0) & ~here
    found, wrong = ((scores[cells] > 0.5).float().mean().item() for cells in (here, there))
    if found < 0.97 or wrong > 0.001:
        message = f"{found:.1%} of the cells with shapes and {wrong:.2%} of the others are found"
        raise SystemExit(f"{message}; expected 97 % at least, and 0.1 % at most")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            network,
            (torch.zeros(2, 3, SIDE, SIDE),),
            str(HERE / "shape_detect.onnx"),
            dynamo=False,
            input_names=["image"],
            output_names=["boxes"],
            dynamic_axes={"image": {0: "n"}, "boxes": {0: "n"}},
        )
    sys.stdout.write(f"{found:.1%} of the cells with shapes found, {wrong:.2%} of the others\n")


if __name__ == "__main__":
    main()
