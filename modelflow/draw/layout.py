"""Places the boxes, wires and labels of a drawing. Pure functions.

The data runs to the right, or down. Computations here are for a drawing to the right; a drawing
down is the same with x and y exchanged. Wires run between boxes and never behind a box. A wire
that leads back (of a loop) runs below all boxes. A box with a position in the graph file keeps this
position, and a wire at this box ignores the other boxes.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from modelflow.draw.layers import Lane, Order
from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode
from modelflow.draw.shapes import (
    MARGIN,
    Box,
    Curve,
    Direction,
    Label,
    Layout,
    Point,
    Size,
    Wire,
    bent,
    map_points,
    round_corners,
    round_off,
    straight,
)
from modelflow.draw.text import LABEL_SIZE, shorten, text_width

# Pixels.
LINE = 17.0
GAP_ACROSS, GAP_DOWN = 56.0, 22.0
MOST_WIDTH = 1600.0
"""The width at which ``auto`` turns a drawing down."""
_LANE, _PORT, _BACK = 8.0, 17.0, 12.0
_LABEL_HEIGHT, _LABEL_MOST = 16.0, 16


def layout_of(
    outline: Outline, sizes: Mapping[str, Size] | None = None, direction: Direction = "right"
) -> Layout:
    """Places the nodes in layers, each node after all nodes that feed the node.

    Args:
        outline: The graph.
        sizes: The least size of each box. By default the size follows from its text, and wires
            have labels.
        direction: ``right`` or ``down``. ``auto`` is ``down`` if that is less wide, and a drawing
            to the right is wider than `MOST_WIDTH` and has no box with a position.
    """
    order = Order.of(outline)
    has_labels = sizes is None
    sizes = sizes or {node.name: _size(node) for node in outline.nodes}
    if direction != "auto":
        return _Drawing(outline, order, sizes, has_labels, direction == "down").layout()
    right = _Drawing(outline, order, sizes, has_labels, is_down=False).layout()
    if right.width <= MOST_WIDTH or any(node.position for node in outline.nodes):
        return right
    down = _Drawing(outline, order, sizes, has_labels, is_down=True).layout()
    return min(right, down, key=lambda layout: layout.width)


def _size(node: OutlineNode) -> Size:
    wide = max(text_width(text, is_bold=not place) for place, text in enumerate(node.lines))
    return wide + 40, len(node.lines) * LINE + 18


@dataclass(frozen=True)
class _Place:
    """A box: its start and length along the data, its start and length across the data."""

    at: float
    long: float
    across: float
    wide: float

    def end(self, ports: Sequence[str], port: str, *, is_output: bool) -> Point:
        share = (ports.index(port) + 1) / (len(ports) + 1)
        return round_off(self.at + self.long * is_output, self.across + self.wide * share)


@dataclass(frozen=True)
class _Column:
    """A layer: its labels of inputs, its boxes from ``begin`` to ``end``, its labels of outputs."""

    enters: float
    begin: float
    end: float
    leaves: float


class _Drawing:
    """The computation of a layout. Points are along and across the direction of the data."""

    def __init__(
        self,
        outline: Outline,
        order: Order,
        sizes: Mapping[str, Size],
        has_labels: bool,
        is_down: bool,
    ) -> None:
        self._outline, self._order, self._is_down = outline, order, is_down
        self._nodes = {node.name: node for node in outline.nodes}
        self._has_labels = has_labels
        self._sizes = {name: self._room(name, size) for name, size in sizes.items()}
        self._pinned = {node.name for node in outline.nodes if node.position is not None}
        self._places: dict[str, _Place] = {}
        self._columns: list[_Column] = []
        self._lanes: dict[Lane, float] = {}

    def layout(self) -> Layout:
        self._place()
        wires = self._wires()
        boxes = tuple(map(self._box, self._outline.nodes))
        points = [point for wire in wires for curve in wire.curves for point in curve]
        corners = [*points, *((box.x, box.y) for box in boxes)]
        left, top = (min([0.0, *(at[axis] - MARGIN for at in corners)]) for axis in (0, 1))
        points += [(box.x + box.width, box.y + box.height) for box in boxes]
        points += [
            (one.x + text_width(one.text, LABEL_SIZE), one.y)
            for wire in wires
            for one in wire.labels
            if not one.is_at_end
        ]
        width, height = (max([0.0, *(at[axis] for at in points)]) + MARGIN for axis in (0, 1))
        direction: Direction = "down" if self._is_down else "right"
        return Layout(boxes, wires, width - left, height - top, left, top, direction)

    def _turn(self, point: Point) -> Point:
        return (point[1], point[0]) if self._is_down else point

    def _names(self, node: str) -> tuple[str, ...]:
        """Returns the labels at a node: the names of its ports on sides with several."""
        found = self._nodes[node]
        sides = (found.inputs, found.outputs)
        return tuple(name for side in sides if len(side) > 1 for name in side)

    def _room(self, name: str, size: Size) -> Size:
        """Returns the length along and across of a box, with room for its ports."""
        along, across = self._turn(size)
        step = _PORT
        if self._is_down and self._has_labels:
            step = max([_PORT, *(self._label_length(port) + 12 for port in self._names(name))])
        most = max(len(self._nodes[name].inputs), len(self._nodes[name].outputs))
        return along, max(across, step * (most + 1) if most > 1 else 0.0)

    def _label_length(self, port: str) -> float:
        return text_width(shorten(port, _LABEL_MOST), LABEL_SIZE)

    def _labels_room(self, layer: int, side: str) -> float:
        """Returns the room that the labels at one side of a layer need along the data."""
        boxes = [slot for slot in self._order.layers[layer] if isinstance(slot, str)]
        sides = [getattr(self._nodes[name], side) for name in boxes]
        ports = [port for ports in sides if len(ports) > 1 for port in ports]
        if not (ports and self._has_labels):
            return 0.0
        return _LABEL_HEIGHT if self._is_down else max(map(self._label_length, ports)) + 12

    def _place(self) -> None:
        """Places columns, boxes and lanes."""
        layers = self._order.layers
        sizes = [
            [self._sizes[slot] if isinstance(slot, str) else (0.0, _LANE) for slot in layer]
            for layer in layers
        ]
        heights = [math.fsum(wide + GAP_DOWN for _, wide in column) - GAP_DOWN for column in sizes]
        at = MARGIN
        for number, (layer, column) in enumerate(zip(layers, sizes, strict=True)):
            begin = at + self._labels_room(number, "inputs")
            end = begin + max(long for long, _ in column)
            leaves = end + self._labels_room(number, "outputs")
            self._columns.append(_Column(at, begin, end, leaves))
            across = MARGIN + (max(heights) - heights[number]) / 2
            for slot, (long, wide) in zip(layer, column, strict=True):
                if isinstance(slot, str):
                    own = begin + (end - begin - long) / 2
                    self._places[slot] = _Place(own, long, across, wide)
                else:
                    self._lanes[slot] = across + wide / 2
                across += wide + GAP_DOWN
            at = leaves + GAP_ACROSS
        for name in self._pinned:
            place, position = self._places[name], self._nodes[name].position
            assert position is not None
            along, across = self._turn(position)
            self._places[name] = replace(
                place, at=along - place.long / 2, across=across - place.wide / 2
            )

    def _box(self, node: OutlineNode) -> Box:
        place, order = self._places[node.name], self._order
        (x, y), (width, height) = map(
            self._turn, ((place.at, place.across), (place.long, place.wide))
        )
        ports = order.inputs[node.name], order.outputs[node.name]
        return Box(node.name, node.kind, node.lines, node.mark, x, y, width, height, *ports)

    def _wires(self) -> tuple[Wire, ...]:
        depth, edges = self._order.depth, self._outline.edges
        back = [place for place, edge in enumerate(edges) if self._is_back(edge)]
        back.sort(key=lambda place: depth[edges[place].source] - depth[edges[place].target])
        below = max(
            [place.across + place.wide for place in self._places.values()]
            + [lane + _LANE for lane in self._lanes.values()],
            default=0.0,
        )
        wires = []
        for place, edge in enumerate(edges):
            outputs, inputs = self._order.outputs[edge.source], self._order.inputs[edge.target]
            begin = self._places[edge.source].end(outputs, edge.output, is_output=True)
            end = self._places[edge.target].end(inputs, edge.input, is_output=False)
            if place in back:
                curves = self._way_back(edge, begin, end, below, back.index(place) + 1)
            elif {edge.source, edge.target} & self._pinned:
                curves = [bent(begin, end)]
            else:
                curves = list(self._way(place, edge, begin, end))
            wires.append(self._wire(edge, curves))
        return tuple(wires)

    def _is_back(self, edge: OutlineEdge) -> bool:
        source, target = self._places[edge.source], self._places[edge.target]
        if {edge.source, edge.target} & self._pinned:
            return source.at + source.long > target.at
        return self._order.depth[edge.source] >= self._order.depth[edge.target]

    def _way(self, place: int, edge: OutlineEdge, begin: Point, end: Point) -> Iterable[Curve]:
        """Yields the curves of a wire, which is straight inside layers."""
        first, last = self._order.depth[edge.source], self._order.depth[edge.target]
        points = [begin, (self._columns[first].leaves, begin[1])]
        for layer in range(first + 1, last):
            column, across = self._columns[layer], self._lanes[Lane(place, layer)]
            points += [(column.enters, across), (column.leaves, across)]
        points += [(self._columns[last].enters, end[1]), end]
        for one, other in itertools.pairwise(dict.fromkeys(round_off(*at) for at in points)):
            yield straight(one, other) if one[1] == other[1] else bent(one, other)

    def _way_back(
        self, edge: OutlineEdge, begin: Point, end: Point, below: float, number: int
    ) -> list[Curve]:
        """Returns the curves of a wire that leads back, with its number among these wires."""
        away = _BACK + 6.0 * ((number - 1) % 5)
        leaves, enters = begin[0], end[0]
        if edge.source not in self._pinned:
            leaves = self._columns[self._order.depth[edge.source]].leaves
        if edge.target not in self._pinned:
            enters = self._columns[self._order.depth[edge.target]].enters
        across = below + 6.0 + _BACK * number
        right, left = leaves + away, enters - away
        corners = [begin, (right, begin[1]), (right, across), (left, across), (left, end[1]), end]
        return round_corners(corners)

    def _wire(self, edge: OutlineEdge, curves: Sequence[Curve]) -> Wire:
        """Returns the wire with its labels, in pixels of the drawing."""
        outputs, inputs = self._nodes[edge.source].outputs, self._nodes[edge.target].inputs
        turned = map_points(curves, self._turn)
        labels, names = [], []
        for name, ports, (x, y), is_input in (
            (edge.output, outputs, turned[0][0], False),
            (edge.input, inputs, turned[-1][-1], True),
        ):
            if len(ports) < 2:
                continue
            names.append(name)
            text = shorten(name, _LABEL_MOST)
            if self._is_down:
                labels.append(Label(text, name, x + 5, y - 9 if is_input else y + 12, False))
            else:
                labels.append(Label(text, name, x - 9 if is_input else x + 6, y - 4, is_input))
        return Wire(turned, " → ".join(names), tuple(labels) if self._has_labels else ())
