"""Places the boxes and edges of a drawing in layers from left to right. Pure functions.

The order within a layer keeps crossings few. An edge that passes over layers has a place of its own
among the boxes of each layer (a *lane*). Edges therefore run between boxes and never behind a box.
A box with a position in the graph file keeps this position, and its edges are drawn straight.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode

Point = tuple[float, float]
"""x and y, in pixels."""
Curve = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: the start, two control points, and the end."""

_LEAST_BEND = 24.0


@dataclass(frozen=True)
class Wire:
    """An edge in the drawing.

    Attributes:
        points: The start, the exit from its layer, the passed lanes (in and out), the entry into
            the last layer, and the end.
        label: The ports, if the nodes at the ends have several.
    """

    points: tuple[Point, ...]
    label: str

    @property
    def middle(self) -> Point:
        """The position of the label: the middle of the wire, or of the passed layers."""
        half = len(self.points) // 2
        (x0, y0), (x1, y1) = self.points[half - 1], self.points[half]
        return (x0 + x1) / 2, (y0 + y1) / 2

    @property
    def curves(self) -> Iterator[Curve]:
        """The curves, each from the end of the previous curve, and horizontal at their ends."""
        for (x0, y0), (x1, y1) in itertools.pairwise(dict.fromkeys(self.points)):
            bend = (x1 - x0) / 2 if y0 == y1 else max(_LEAST_BEND, (x1 - x0) / 2)
            yield (x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)

    @property
    def path(self) -> str:
        """The path in SVG syntax."""
        x, y = self.points[0]
        parts = [f"M{x:.1f} {y:.1f}"]
        for _, (x1, y1), (x2, y2), (x3, y3) in self.curves:
            parts.append(f"C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {x3:.1f} {y3:.1f}")
        return " ".join(parts)


# Pixels. The width of letters is that of a common sans-serif font.
LETTER, LINE = 7.2, 17.0
GAP_ACROSS, GAP_DOWN, MARGIN = 56.0, 22.0, 18.0
LEGEND = 34.0
_LANE = 8.0
_SWEEPS = 8

# An item of a layer: a box by its name, or the lane of an edge by the index of the edge.
_Slot = str | int
Size = tuple[float, float]
"""Width and height."""


@dataclass(frozen=True)
class Box:
    """A node in the drawing: position, lines of text, and the kind that decides its colour."""

    name: str
    kind: str
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """A whole drawing, in pixels.

    Attributes:
        boxes: One box for each node, in their order.
        wires: One wire for each edge, in their order.
        kinds: The kinds that the legend explains.
        width, height: The size.
        x, y: The upper left corner; negative if a box is left of or above the origin, else 0.
    """

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    kinds: tuple[str, ...]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    def at_origin(self) -> "Layout":
        """Returns the drawing with its upper left corner at 0, 0."""
        if not (self.x or self.y):
            return self
        boxes = tuple(replace(box, x=box.x - self.x, y=box.y - self.y) for box in self.boxes)
        wires = tuple(
            replace(wire, points=tuple((x - self.x, y - self.y) for x, y in wire.points))
            for wire in self.wires
        )
        return replace(self, boxes=boxes, wires=wires, x=0.0, y=0.0)


def layout_of(outline: Outline, sizes: Mapping[str, Size] | None = None) -> Layout:
    """Places the nodes in layers, each node after all nodes that feed the node.

    Args:
        outline: The graph.
        sizes: The size of each box. By default the size follows from its text.
    """
    nodes = {node.name: node for node in outline.nodes}
    sizes = sizes or {name: _size(node) for name, node in nodes.items()}
    depth = _depths(outline)
    layers = _layers(outline, depth)
    links = _links(outline, depth)
    for _ in range(_SWEEPS):
        _sort(layers, links, backwards=False)
        _sort(layers, links, backwards=True)
    heights = [
        [sizes[slot][1] if isinstance(slot, str) else _LANE for slot in layer] for layer in layers
    ]
    tallest = max((_column_height(column) for column in heights), default=0.0)
    boxes: dict[str, Box] = {}
    lanes: dict[int, list[Point]] = {}
    columns: dict[str, tuple[float, float]] = {}  # for each box: start and end of its layer
    x = MARGIN
    for layer, column in zip(layers, heights, strict=True):
        width = max(sizes[slot][0] for slot in layer if isinstance(slot, str))
        y = MARGIN + (tallest - _column_height(column)) / 2
        for slot, height in zip(layer, column, strict=True):
            if isinstance(slot, str):
                own, node = sizes[slot][0], nodes[slot]
                place = x + (width - own) / 2
                columns[slot] = x, x + width
                boxes[slot] = Box(slot, node.kind, node.lines, place, y, own, height)
            else:
                middle = y + height / 2
                lanes.setdefault(slot, []).extend([(x, middle), (x + width, middle)])
            y += height + GAP_DOWN
        x += width + GAP_ACROSS
    pinned = {node.name: node.position for node in outline.nodes if node.position is not None}
    for name, (middle_x, middle_y) in pinned.items():
        box = boxes[name]
        boxes[name] = replace(box, x=middle_x - box.width / 2, y=middle_y - box.height / 2)
    ways = [
        _Way(columns[edge.source][1], lanes.get(place, ()), columns[edge.target][0])
        for place, edge in enumerate(outline.edges)
    ]
    wires = tuple(
        _wire(nodes, boxes, edge, None if {edge.source, edge.target} & pinned.keys() else way)
        for edge, way in zip(outline.edges, ways, strict=True)
    )
    drawn = tuple(boxes[name] for name in nodes)
    kinds = tuple(dict.fromkeys(box.kind for box in drawn))
    left = min([0.0, *(box.x - MARGIN for box in drawn)])
    top = min([0.0, *(box.y - MARGIN for box in drawn)])
    right = max([x - GAP_ACROSS, *(box.x + box.width for box in drawn)])
    below = max([tallest + MARGIN, *(box.y + box.height for box in drawn)])
    width, height = right + MARGIN - left, below + MARGIN + LEGEND - top
    return Layout(drawn, wires, kinds, width, height, left, top)


def _depths(outline: Outline) -> dict[str, int]:
    """Returns the layer of each node, without the back edges of loops."""
    sources: dict[str, list[str]] = {}
    for edge in outline.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    depth: dict[str, int] = {}
    for node in outline.nodes:  # in topological order
        feeding = [depth[name] for name in sources.get(node.name, ()) if name in depth]
        depth[node.name] = max(feeding, default=-1) + 1
    return depth


def _layers(outline: Outline, depth: Mapping[str, int]) -> list[list[_Slot]]:
    layers: list[list[_Slot]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, place in depth.items():
        layers[place].append(name)
    for place, edge in enumerate(outline.edges):
        for passed in range(depth[edge.source] + 1, depth[edge.target]):
            layers[passed].append(place)
    return layers


def _links(outline: Outline, depth: Mapping[str, int]) -> dict[_Slot, list[_Slot]]:
    """Returns for each box and lane its neighbours in the adjacent layers."""
    links: dict[_Slot, list[_Slot]] = {}
    for place, edge in enumerate(outline.edges):
        is_long = depth[edge.target] - depth[edge.source] > 1
        chain: list[_Slot] = [edge.source, *([place] if is_long else []), edge.target]
        for one, other in itertools.pairwise(chain):
            links.setdefault(one, []).append(other)
            links.setdefault(other, []).append(one)
        if is_long:
            links[place].append(place)  # the lane of the same edge in the previous layer
    return links


def _sort(
    layers: list[list[_Slot]], links: Mapping[_Slot, Sequence[_Slot]], *, backwards: bool
) -> None:
    """Orders each layer by the mean place of its neighbours in the previous layers."""
    places: dict[_Slot, float] = {}
    for layer in reversed(layers) if backwards else layers:
        means = {}
        for place, slot in enumerate(layer):
            near = [places[other] for other in links.get(slot, ()) if other in places]
            means[slot] = math.fsum(near) / len(near) if near else float(place)
        layer.sort(key=means.__getitem__)
        places |= {slot: place - len(layer) / 2 for place, slot in enumerate(layer)}


def _size(node: OutlineNode) -> Size:
    return max(map(len, node.lines)) * LETTER + 26, len(node.lines) * LINE + 18


def _column_height(heights: Sequence[float]) -> float:
    return math.fsum(heights) + GAP_DOWN * (len(heights) - 1)


class _Way(NamedTuple):
    """The inner points of a wire: x of the exit from a layer, the lanes, x of the entry."""

    leaves: float
    lane: Sequence[Point]
    enters: float


def _wire(
    nodes: Mapping[str, OutlineNode], boxes: Mapping[str, Box], edge: OutlineEdge, way: _Way | None
) -> Wire:
    """Returns a wire that is horizontal inside a layer, where other boxes may be wider.

    Without a way between layers the wire is straight from port to port.
    """
    source, target = boxes[edge.source], boxes[edge.target]
    outputs, inputs = nodes[edge.source].outputs, nodes[edge.target].inputs
    from_y, to_y = _port_y(source, outputs, edge.output), _port_y(target, inputs, edge.input)
    begin, end = (source.x + source.width, from_y), (target.x, to_y)
    ends = [edge.output] if len(outputs) > 1 else []
    ends += [edge.input] if len(inputs) > 1 else []
    label = " → ".join(ends)
    if way is None:
        return Wire((begin, end), label)
    return Wire((begin, (way.leaves, from_y), *way.lane, (way.enters, to_y), end), label)


def _port_y(box: Box, ports: Sequence[str], port: str) -> float:
    return box.y + box.height * (ports.index(port) + 1) / (len(ports) + 1)
