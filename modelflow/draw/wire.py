"""An edge in a drawing: a smooth line from port to port, between the boxes on its way. Pure."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

Point = tuple[float, float]
"""x and y, in pixels."""
Curve = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: where it begins, what draws it at each end, where it ends."""

_LEAST_BEND = 24.0


@dataclass(frozen=True)
class Wire:
    """An edge in the drawing.

    Attributes:
        points: Where it begins, leaves its layer, passes others (in and out), enters the last one,
            and ends.
        label: The ports, where the nodes at the ends have several.
    """

    points: tuple[Point, ...]
    label: str

    @property
    def end(self) -> Point:
        """Where its arrow is."""
        return self.points[-1]

    @property
    def middle(self) -> Point:
        """Where its label stands: half-way, or half-way through the layers that it passes."""
        half = len(self.points) // 2
        (x0, y0), (x1, y1) = self.points[half - 1], self.points[half]
        return (x0 + x1) / 2, (y0 + y1) / 2

    @property
    def curves(self) -> Iterator[Curve]:
        """Its curves, each beginning where the one before ends, all level at their ends."""
        for (x0, y0), (x1, y1) in itertools.pairwise(dict.fromkeys(self.points)):
            bend = (x1 - x0) / 2 if y0 == y1 else max(_LEAST_BEND, (x1 - x0) / 2)
            yield (x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)

    @property
    def path(self) -> str:
        """Its path as SVG has it."""
        x, y = self.points[0]
        parts = [f"M{x:.1f} {y:.1f}"]
        for _, (x1, y1), (x2, y2), (x3, y3) in self.curves:
            parts.append(f"C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}")
        return " ".join(parts)
