"""The parts of a drawing as values in pixels: boxes, wires, labels, curves. Pure functions."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Point = tuple[float, float]
"""x and y, in pixels."""
Curve = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: the start, two control points, and the end."""
Size = tuple[float, float]
"""Width and height."""
Direction = Literal["auto", "right", "down"]

MARGIN = 18.0
"""The space around a drawing in pixels."""

SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "source": "M2 1 11 6 2 11z",
        "sink": "M2 2H10V10H2z",
        "condition": "M6 0 12 6 6 12 0 6z",
        "loop": "M10.5 3.5A5 5 0 1 0 11 7M11 0V4H7",
        "expand": "M0 6H12M0 6 11 1M0 6 11 11",
        "collapse": "M0 6H12M1 1 12 6M1 11 12 6",
        "stream": "M0 6Q3 0 6 6T12 6",
    }
)
"""The sign of each mark as a path in SVG syntax, 12 pixels wide and high."""

_BEND, _CORNER = 24.0, 8.0


@dataclass(frozen=True)
class Label:
    """The name of a port at the end of a wire.

    Attributes:
        text: The name, perhaps shortened.
        name: The whole name.
        x, y: The start of the text's base line, or its end.
        is_at_end: Whether x is the end of the text.
    """

    text: str
    name: str
    x: float
    y: float
    is_at_end: bool


@dataclass(frozen=True)
class Wire:
    """An edge in the drawing.

    Attributes:
        curves: The curves from the source to the target, each from the end of the previous curve.
        label: The ports, if the nodes at the ends have several.
        labels: The same ports at their places.
    """

    curves: tuple[Curve, ...]
    label: str
    labels: tuple[Label, ...] = ()

    @property
    def path(self) -> str:
        """The path in SVG syntax."""
        x, y = self.curves[0][0]
        parts = [f"M{x:.1f} {y:.1f}"]
        for _, (x1, y1), (x2, y2), (x3, y3) in self.curves:
            parts.append(f"C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}")
        return " ".join(parts)


@dataclass(frozen=True)
class Box:
    """A node in the drawing: position, lines of text, and the kind that decides its colour.

    Attributes:
        name, kind, lines, mark: See `OutlineNode`.
        x, y, width, height: The rectangle.
        inputs, outputs: The ports from top to bottom, or from left to right.
    """

    name: str
    kind: str
    lines: tuple[str, ...]
    mark: str
    x: float
    y: float
    width: float
    height: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A whole drawing, in pixels.

    Attributes:
        boxes: One box for each node, in their order.
        wires: One wire for each edge, in their order.
        width, height: The size.
        x, y: The upper left corner; negative if a box or a wire is left of or above the origin.
        direction: ``right`` or ``down``.
    """

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    direction: Direction = "right"

    def at_origin(self) -> "Layout":
        """Returns the drawing with its upper left corner at 0, 0."""
        return self.move(-self.x, -self.y)

    def move(self, right: float, down: float) -> "Layout":
        """Returns the drawing moved to the right and down."""
        if not (right or down):
            return self
        boxes = tuple(replace(box, x=box.x + right, y=box.y + down) for box in self.boxes)
        wires = tuple(
            replace(
                wire,
                curves=map_points(wire.curves, lambda at: (at[0] + right, at[1] + down)),
                labels=tuple(replace(one, x=one.x + right, y=one.y + down) for one in wire.labels),
            )
            for wire in self.wires
        )
        return replace(self, boxes=boxes, wires=wires, x=self.x + right, y=self.y + down)


def map_points(curves: Iterable[Curve], turn: Callable[[Point], Point]) -> tuple[Curve, ...]:
    """Returns the curves with a function applied to each point."""
    return tuple((turn(a), turn(b), turn(c), turn(d)) for a, b, c, d in curves)


def round_off(x: float, y: float) -> Point:
    """Returns a point that is equal to others at its place, despite errors of floating point."""
    return round(x, 2), round(y, 2)


def straight(one: Point, other: Point) -> Curve:
    """Returns the line between two points as a curve."""
    (x0, y0), (x1, y1) = one, other
    x, y = (x1 - x0) / 3, (y1 - y0) / 3
    return one, (x0 + x, y0 + y), (x1 - x, y1 - y), other


def bent(one: Point, other: Point) -> Curve:
    """Returns a curve that is parallel to the data at both ends."""
    (x0, y0), (x1, y1) = one, other
    bend = max(_BEND, (x1 - x0) / 2)
    return one, (x0 + bend, y0), (x1 - bend, y1), other


def round_corners(corners: Sequence[Point]) -> list[Curve]:
    """Returns the lines between the points, with round corners."""
    curves, at = [], corners[0]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        cut_in, cut_out = _towards(corner, before), _towards(corner, after)
        curves += [straight(at, cut_in), (cut_in, corner, corner, cut_out)]
        at = cut_out
    return [*curves, straight(at, corners[-1])]


def _towards(corner: Point, other: Point) -> Point:
    """Returns the point where the round corner begins on the way to another point."""
    (x0, y0), (x1, y1) = corner, other
    length = math.hypot(x1 - x0, y1 - y0)
    share = min(_CORNER, length / 2) / length if length else 0.0
    return x0 + (x1 - x0) * share, y0 + (y1 - y0) * share
