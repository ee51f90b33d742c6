"""Places the nodes of an edited graph; the nodes of the last picture stay. Pure."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from modelflow.draw.layout import GAP_ACROSS, GAP_DOWN, layout_of
from modelflow.draw.outline import Outline
from modelflow.draw.shapes import Box, Layout, Point, Size

MOST_NEW = 100
"""The most new nodes for which the other nodes stay."""

# A page may round places to pixels.
_SAME = 0.5


def place_nodes(outline: Outline, sizes: Mapping[str, Size], places: Mapping[str, Point]) -> Layout:
    """Places the nodes; the nodes of the last picture stay where they were, if that is possible.

    A node with a position in the file has this position. The automatic layout is taken, up to one
    shift, if it leaves all nodes of the last picture in place. Otherwise a new node is placed next
    to a neighbour. If an edge would then lead back without need, the automatic layout is taken.

    Args:
        outline: The graph.
        sizes: The least size of each box.
        places: The middles of the boxes in the last picture.
    """
    automatic = layout_of(outline, sizes)
    pinned = {node.name for node in outline.nodes if node.position is not None}
    known = {box.name for box in automatic.boxes if box.name in places} - pinned
    if not known:
        return automatic
    shifted = _shift(automatic, known, pinned, places)
    if shifted is not None:
        return shifted
    if len(automatic.boxes) - len(known) - len(pinned) > MOST_NEW:
        return automatic
    fixed = known | pinned
    areas = {box.name: _Area.of(box) for box in automatic.boxes}
    placed = {name: areas[name] for name in areas if name in fixed}
    placed |= {name: areas[name].around(places[name]) for name in known}
    if _has_overlap(placed[name] for name in known):  # a box has grown
        return automatic
    placed = _place_new(outline, areas, placed)
    if any(
        areas[edge.source].right <= areas[edge.target].left  # no way back of a loop
        and placed[edge.source].right > placed[edge.target].left
        for edge in outline.edges
        if not {edge.source, edge.target} & pinned
    ):
        return automatic
    nodes = (
        node if node.position is not None else replace(node, position=placed[node.name].middle)
        for node in outline.nodes
    )
    return layout_of(replace(outline, nodes=tuple(nodes)), sizes)


class _Area(NamedTuple):
    """The rectangle of a box."""

    left: float
    top: float
    width: float
    height: float

    @classmethod
    def of(cls, box: Box) -> "_Area":
        return cls(box.x, box.y, box.width, box.height)

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> Point:
        return self.left + self.width / 2, self.top + self.height / 2

    def around(self, middle: Point) -> "_Area":
        """Returns the rectangle of this size with its middle at a point."""
        x, y = middle
        return self._replace(left=x - self.width / 2, top=y - self.height / 2)


def _shift(
    automatic: Layout, known: set[str], pinned: set[str], places: Mapping[str, Point]
) -> Layout | None:
    """Returns the automatic layout so moved that known nodes stay, or None if they would not."""
    boxes = {box.name: box for box in automatic.boxes}
    moves = []
    for name in known:
        (x, y), (wanted_x, wanted_y) = _Area.of(boxes[name]).middle, places[name]
        moves.append((wanted_x - x, wanted_y - y))
    right, down = min(moves)
    if any(abs(x - right) > _SAME or abs(y - down) > _SAME for x, y in moves):
        return None
    if max(abs(right), abs(down)) <= _SAME:
        right = down = 0.0
    if pinned and (right or down):
        return None
    for name in boxes.keys() - known - pinned:
        others = (_Area.of(boxes[one]) for one in pinned)
        if _nearest_top(_Area.of(boxes[name]), others) != boxes[name].y:
            return None  # a pinned node is there
    return automatic.move(right, down)


def _has_overlap(areas: Iterable[_Area]) -> bool:
    ordered = sorted(areas)
    for place, one in enumerate(ordered):
        for other in itertools.islice(ordered, place + 1, None):
            if other.left >= one.right - _SAME:
                break
            if one.top < other.bottom - _SAME and other.top < one.bottom - _SAME:
                return True
    return False


def _place_new(
    outline: Outline, areas: Mapping[str, _Area], placed: dict[str, _Area]
) -> dict[str, _Area]:
    """Returns the areas of all nodes, each new one right of its sources or left of its targets."""
    placed = dict(placed)
    sources: dict[str, list[str]] = {name: [] for name in areas}
    targets: dict[str, list[str]] = {name: [] for name in areas}
    for edge in outline.edges:
        sources[edge.target].append(edge.source)
        targets[edge.source].append(edge.target)
    waiting = [node.name for node in outline.nodes if node.name not in placed]
    while waiting:
        name = next(
            (one for one in waiting if placed.keys() & sources[one]),
            next((one for one in reversed(waiting) if placed.keys() & targets[one]), waiting[0]),
        )
        waiting.remove(name)
        area = areas[name]
        before = [placed[one] for one in sources[name] if one in placed]
        after = [placed[one] for one in targets[name] if one in placed]
        if before:
            left = max(one.right for one in before) + GAP_ACROSS
            top = before[0].middle[1] - area.height / 2
        elif after:
            left = min(one.left for one in after) - GAP_ACROSS - area.width
            top = after[0].middle[1] - area.height / 2
        else:
            left = min(one.left for one in placed.values())
            top = max(one.bottom for one in placed.values()) + GAP_DOWN
        area = area._replace(left=left, top=top)
        placed[name] = area._replace(top=_nearest_top(area, placed.values()))
    return placed


def _nearest_top(area: _Area, others: Iterable[_Area]) -> float:
    """Returns the nearest place above or below at which an area keeps its distance from others."""
    taken = [
        (one.top - GAP_DOWN - area.height, one.bottom + GAP_DOWN)
        for one in others
        if one.left - GAP_ACROSS < area.right and area.left < one.right + GAP_ACROSS
    ]
    above = below = area.top
    for begin, end in sorted(taken):
        if begin < below < end:
            below = end
    for begin, end in sorted(taken, key=lambda one: one[1], reverse=True):
        if begin < above < end:
            above = begin
    return below if below - area.top <= area.top - above else above
