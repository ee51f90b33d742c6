"""A drawing as PNG, by OpenCV."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from modelflow.draw.layout import LINE, Box, Layout
from modelflow.draw.wire import Wire
from modelflow.image import opencv

__all__ = ["png_of"]

cv2 = opencv()
_SCALE = 2  # drawn at twice the size: sharp on dense screens
_DARK, _GREY = (41, 37, 33), (87, 80, 73)
_FONT = cv2.FONT_HERSHEY_SIMPLEX

Image = npt.NDArray[np.uint8]
Colours = Mapping[str, tuple[str, str]]


def png_of(layout: Layout, colours: Colours, legend: Mapping[str, str]) -> bytes:
    """Returns ``layout`` as an encoded PNG.

    Args:
        layout: What to draw.
        colours: Fill and border, ``#rrggbb``, by kind.
        legend: What a kind is called, where that is not its name.
    """
    size = (round(layout.height * _SCALE), round(layout.width * _SCALE), 3)
    image: Image = np.full(size, 255, np.uint8)
    for wire in layout.wires:
        _draw_wire(image, wire)
    for box in layout.boxes:
        _draw_box(image, box, colours[box.kind])
    x, y = 18.0, layout.height - 26
    for kind in layout.kinds:
        text = legend.get(kind, kind)
        _rounded(image, (x, y, 13, 13), 3, colours[kind])
        _text(image, text, (x + 19, y + 11), 0.42, _GREY)
        x += 46 + 7 * len(text)
    _, encoded = cv2.imencode(".png", image)
    return bytes(encoded)


def _draw_box(image: Image, box: Box, colours: tuple[str, str]) -> None:
    radius = box.height / 2 if box.kind == "port" else 9
    _rounded(image, (box.x, box.y, box.width, box.height), radius, colours)
    for place, text in enumerate(box.lines):
        size, colour = (0.46, _DARK) if place == 0 else (0.41, _GREY)
        width = cv2.getTextSize(text, _FONT, size, 1)[0][0]
        x = box.x + (box.width - width) / 2
        _text(image, text, (x, box.y + 22 + place * LINE), size, colour)


def _rounded(
    image: Image,
    rectangle: tuple[float, float, float, float],
    radius: float,
    colours: tuple[str, str],
) -> None:
    x, y, width, height = rectangle
    corners = []
    for middle_x, middle_y, start in (
        (x + width - radius, y + radius, 270),
        (x + width - radius, y + height - radius, 0),
        (x + radius, y + height - radius, 90),
        (x + radius, y + radius, 180),
    ):
        angles = np.deg2rad(np.linspace(start, start + 90, 12))
        corners.append(
            np.stack(
                [middle_x + radius * np.cos(angles), middle_y + radius * np.sin(angles)], axis=1
            )
        )
    points = (np.concatenate(corners) * _SCALE).round().astype(np.int32)
    cv2.fillPoly(image, [points], _bgr(colours[0]), cv2.LINE_AA)
    cv2.polylines(image, [points], True, _bgr(colours[1]), 2, cv2.LINE_AA)


def _draw_wire(image: Image, wire: Wire) -> None:
    t = np.linspace(0, 1, 40)[:, None]
    parts = []
    for curve in wire.curves:
        p0, p1, p2, p3 = map(np.array, curve)
        parts.append((1 - t) ** 3 * p0 + 3 * (1 - t) ** 2 * t * p1 + 3 * (1 - t) * t**2 * p2)
        parts[-1] += t**3 * p3
    points = (np.concatenate(parts) * _SCALE).round().astype(np.int32)
    cv2.polylines(image, [points], False, _GREY, 2, cv2.LINE_AA)
    x, y = wire.end
    head = np.array([(x, y), (x - 8, y - 4), (x - 8, y + 4)]) * _SCALE
    cv2.fillPoly(image, [head.round().astype(np.int32)], _GREY, cv2.LINE_AA)
    if wire.label:
        label = wire.label.replace("→", "->")
        width = cv2.getTextSize(label, _FONT, 0.34, 1)[0][0]
        x, y = wire.middle
        _text(image, label, (x - width / 2, y - 6), 0.34, _GREY)


def _text(
    image: Image, text: str, at: tuple[float, float], size: float, colour: tuple[int, int, int]
) -> None:
    plain = text.replace("·", "|").encode("ascii", "replace").decode()  # what the font has
    place = (round(at[0] * _SCALE), round(at[1] * _SCALE))
    cv2.putText(image, plain, place, _FONT, size * _SCALE, colour, 1, cv2.LINE_AA)


def _bgr(colour: str) -> tuple[int, int, int]:
    return int(colour[5:7], 16), int(colour[3:5], 16), int(colour[1:3], 16)
