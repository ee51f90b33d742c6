"""The graph ``detect_classify.toml`` as plain calls of OpenCV, NumPy and ONNX Runtime."""

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
GRAPH = ROOT / "graphs" / "detect_classify.toml"
SHAPES = ROOT / "graphs" / "models" / "shapes"
sys.path.insert(0, str(SHAPES))

from shapes import NAMES, draw  # noqa: E402 - the folder of the ready graph's models

__all__ = ["ByHand", "differences", "picture"]

SIDE, CROP, MARGIN = 160, 24, 0.04
SCORE, OVERLAP = 0.25, 0.45
# The two runtimes' kernels differ in the last digits between batch sizes.
_PIXELS, _SCORES = 0.01, 0.001


def picture(number: int) -> bytes:
    """Returns a JPEG of 240 to 640 pixels with up to nine shapes on a dark ground."""
    rng = np.random.default_rng(number)
    width, height = map(int, rng.integers(240, 641, 2))
    image = np.empty((height, width, 3), np.uint8)
    image[...] = rng.integers(0, 71, 3)
    columns, rows = 3, 3
    for cell in rng.permutation(columns * rows)[: int(rng.integers(0, columns * rows + 1))]:
        x = (cell % columns + 0.5) * width / columns
        y = (cell // columns + 0.5) * height / rows
        radius = int(rng.uniform(0.25, 0.45) * min(width / columns, height / rows))
        ink, angle = rng.integers(110, 256, 3).tolist(), float(rng.uniform(0, 360))
        draw(image, NAMES[int(rng.integers(len(NAMES)))], (int(x), int(y), radius), ink, angle)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()


class ByHand:
    """Detects and classifies in batches, on the calling thread and the engine's own threads."""

    def __init__(self, threads: int = 0) -> None:
        """Loads both models.

        Args:
            threads: The engine's threads; 0 for one for each processor.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._detect, self._classify = (
            onnxruntime.InferenceSession(
                str(SHAPES / name), options, providers=["CPUExecutionProvider"]
            )
            for name in ("shape_detect.onnx", "shapes.onnx")
        )

    def find(self, encoded: list[bytes]) -> list[list[dict[str, Any]]]:
        """Returns the objects of each picture: box, score, crop, and the class with its score."""
        images = [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) for data in encoded]
        fitted = [_letterbox(image) for image in images]
        (tensor,) = self._detect.run(None, {"image": np.stack([planes for planes, _ in fitted])})
        found = [
            [
                {"box": box, "score": score, "crop": crop}
                for box, score in boxes
                if (crop := _crop(image, box)) is not None
            ]
            for image, boxes in zip(
                images,
                (_boxes(rows.T, place) for rows, (_, place) in zip(tensor, fitted, strict=True)),
                strict=True,
            )
        ]
        flat = [one for objects in found for one in objects]
        if flat:
            (scores,) = self._classify.run(
                None, {"image": np.stack([_small(one["crop"]) for one in flat])}
            )
            for one, row in zip(flat, scores, strict=True):
                one["class"], one["class_score"] = NAMES[int(row.argmax())], float(row.max())
        return found


def _letterbox(image: Any) -> tuple[Any, tuple[float, ...]]:
    height, width = image.shape[:2]
    scale = min(SIDE / width, SIDE / height)
    w, h = round(width * scale), round(height * scale)
    left, top = (SIDE - w) // 2, (SIDE - h) // 2
    canvas = np.full((SIDE, SIDE, 3), 114, np.uint8)
    canvas[top : top + h, left : left + w] = cv2.resize(image, (w, h))
    planes = canvas.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
    return planes, (left, top, width / w, height / h, width, height)


def _boxes(rows: Any, place: tuple[float, ...]) -> list[tuple[tuple[float, ...], float]]:
    """Returns boxes in pixels of the picture, after suppression, the best first."""
    left, top, scale_x, scale_y, width, height = place
    kept: list[tuple[float, ...]] = []
    for cx, cy, w, h, score in sorted(rows[rows[:, 4] >= SCORE].tolist(), key=lambda row: -row[4]):
        box = (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, score)
        if all(_overlap(box, other) <= OVERLAP for other in kept):
            kept.append(box)
    found = []
    for a, b, c, d, score in kept:
        x, right = (min(max((edge - left) * scale_x, 0), width) for edge in (a, c))
        y, bottom = (min(max((edge - top) * scale_y, 0), height) for edge in (b, d))
        if right > x and bottom > y:
            found.append(((x, y, right - x, bottom - y), score))
    return found


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    w = min(one[2], other[2]) - max(one[0], other[0])
    h = min(one[3], other[3]) - max(one[1], other[1])
    common = max(w, 0) * max(h, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return common / (areas - common)


def _crop(image: Any, box: tuple[float, ...]) -> Any:
    height, width = image.shape[:2]
    x, y, w, h = box
    left, right = (round(min(max(edge, 0), width)) for edge in (x - MARGIN * w, x + w + MARGIN * w))
    top, bottom = (
        round(min(max(edge, 0), height)) for edge in (y - MARGIN * h, y + h + MARGIN * h)
    )
    if right <= left or bottom <= top:
        return None
    return cv2.resize(image[top:bottom, left:right], (CROP, CROP))


def _small(crop: Any) -> Any:
    gray = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY)
    return gray[None].astype(np.float32) * np.float32(1 / 255)


def differences(hand: list[dict[str, Any]], objects: list[dict[str, Any]]) -> list[str]:
    """Returns the differences between the objects by hand and the graph's answer."""
    if len(hand) != len(objects):
        return [f"{len(objects)} objects; expected {len(hand)}"]
    found = []
    for one, other in zip(hand, objects, strict=True):
        (best,) = other["classes"]
        if np.abs(np.subtract(one["box"], other["box"])).max() > _PIXELS:
            found.append(f"box {other['box']}; expected {one['box']}")
        if abs(one["score"] - other["score"]) > _SCORES:
            found.append(f"score {other['score']}; expected {one['score']}")
        if one["class"] != best["class"] or abs(one["class_score"] - best["score"]) > _SCORES:
            found.append(f"class {best}; expected {one['class']}, {one['class_score']}")
    return found
