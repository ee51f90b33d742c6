"""Tests of the geometry of drawings: eight graphs that are hard to draw, and random graphs."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from modelflow.draw.layout import layout_of
from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode
from modelflow.draw.svg import svg_of
from tests.draw.pictures import PICTURES, outline_of, random_outline

DIRECTIONS = ("right", "down")
RANDOM = [f"random {seed}" for seed in range(40)]


def _outline(name):
    return PICTURES[name] if name in PICTURES else random_outline(int(name.split()[1]))


@pytest.fixture(params=[*PICTURES, *RANDOM])
def outline(request):
    return _outline(request.param)


@pytest.fixture(params=DIRECTIONS)
def layout(request, outline):
    return layout_of(outline, direction=request.param).at_origin()


def _points(wire):
    """Returns 60 points of each curve of a wire."""
    for p0, p1, p2, p3 in wire.curves:
        for step in range(61):
            t = step / 60
            yield tuple(
                (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
                for a, b, c, d in zip(p0, p1, p2, p3, strict=True)
            )


def _rectangle(one):
    return one.x, one.y, one.x + one.width, one.y + one.height


def _is_inside(point, rectangle, margin=0.5):
    (x, y), (left, top, right, bottom) = point, rectangle
    return left + margin < x < right - margin and top + margin < y < bottom - margin


def _overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _width(text, size):
    """Returns the width of a text in a common font."""
    return ImageFont.load_default(size).getlength(text)


def _label_rectangle(label):
    width = _width(label.text, 10.5)
    left = label.x - width if label.is_at_end else label.x
    return left, label.y - 8, left + width, label.y + 1


def test_no_wire_runs_behind_a_box(layout):
    for wire, box in itertools.product(layout.wires, layout.boxes):
        assert not any(_is_inside(point, _rectangle(box)) for point in _points(wire)), (wire, box)


def test_boxes_do_not_overlap_and_stand_inside_the_picture(layout):
    for one, other in itertools.combinations(layout.boxes, 2):
        assert not _overlap(_rectangle(one), _rectangle(other))
    whole = (0.0, 0.0, layout.width, layout.height)
    for box in layout.boxes:
        assert _is_inside((box.x, box.y), whole)
        assert _is_inside((box.x + box.width, box.y + box.height), whole)
    assert all(_is_inside(point, whole) for wire in layout.wires for point in _points(wire))


def test_texts_fit_into_their_boxes(layout):
    for box in layout.boxes:
        assert max(_width(text, 12.5) for text in box.lines) < box.width
        assert len(box.lines) * 17 < box.height


def test_labels_lie_inside_the_picture_and_on_no_box_and_no_other_label(layout):
    labels = [label for wire in layout.wires for label in wire.labels]
    for label in labels:
        found = _label_rectangle(label)
        assert not any(_overlap(found, _rectangle(box)) for box in layout.boxes), label
        assert 0 <= found[0] < found[2] <= layout.width
        assert label.text == label.name or "…" in label.text
    places = {_label_rectangle(label): label.name for label in labels}  # wires may share a port
    for one, other in itertools.combinations(places, 2):
        assert not _overlap(one, other), (places[one], places[other])


def test_a_wire_goes_from_port_to_port_and_enters_in_the_direction_of_the_data(outline, layout):
    boxes = {box.name: box for box in layout.boxes}
    axis = 1 if layout.direction == "down" else 0
    for edge, wire in zip(outline.edges, layout.wires, strict=True):
        source, target = _rectangle(boxes[edge.source]), _rectangle(boxes[edge.target])
        assert wire.curves[0][0][axis] == pytest.approx(source[axis + 2], abs=0.01)
        assert wire.curves[-1][-1][axis] == pytest.approx(target[axis], abs=0.01)
        _, _, (x, y), end = wire.curves[-1]
        assert end[axis] - (x, y)[axis] > 1  # the direction of the arrow
        assert end[1 - axis] == pytest.approx((x, y)[1 - axis])
        for one, other in itertools.pairwise(wire.curves):
            assert one[-1] == other[0]


def test_each_wire_of_the_svg_has_an_arrow(outline, layout):
    root = ET.fromstring(svg_of(layout, outline))
    paths = [
        path
        for path in root.iter("{http://www.w3.org/2000/svg}path")
        if path.get("class") == "wire"
    ]
    assert [path.get("d") for path in paths] == [wire.path for wire in layout.wires]
    assert {path.get("marker-end") for path in paths} <= {"url(#arrow)"}


def test_a_wire_that_leads_back_runs_below_all_boxes():
    layout = layout_of(PICTURES["loop"])
    (back,) = (wire for wire in layout.wires if wire.curves[0][0][0] > wire.curves[-1][-1][0])
    lowest = max(box.y + box.height for box in layout.boxes)
    assert max(y for _, y in _points(back)) > lowest


@pytest.mark.parametrize("name", ["parallel_branches", "many_ports", "condition_with_merge"])
def test_wires_do_not_cross_where_another_order_avoids_this(name):
    layout = layout_of(PICTURES[name])
    lines = [[*itertools.pairwise(_points(wire))] for wire in layout.wires]
    for one, other in itertools.combinations(lines, 2):
        assert not any(_cross(a, b) for a, b in itertools.product(one, other))


def _cross(one, other):
    (a, b), (c, d) = one, other

    def side(p, q, r):
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def test_a_long_chain_is_drawn_down_and_a_short_one_to_the_right():
    chain = layout_of(PICTURES["chain_of_14"], direction="auto")
    assert (chain.direction, chain.width < 300) == ("down", True)
    assert layout_of(PICTURES["loop"], direction="auto").direction == "right"
    assert layout_of(PICTURES["chain_of_14"]).width > 1600


def test_a_pinned_box_keeps_its_position_and_its_wires_meet_the_ports():
    pinned = OutlineNode("b", "cpu", ("b",), ("in",), ("out",), (50.0, 300.0))
    nodes = {node.name: node for node in outline_of("g", "a -> b -> c").nodes}
    edges = (OutlineEdge("a", "out", "b", "in"), OutlineEdge("b", "out", "c", "in"))
    layout = layout_of(Outline("g", (nodes["a"], pinned, nodes["c"]), edges), direction="auto")
    box = layout.boxes[1]
    assert (box.x + box.width / 2, box.y + box.height / 2) == (50.0, 300.0)
    into, out_of = layout.wires
    assert into.curves[-1][-1] == (box.x, 300.0)
    assert out_of.curves[0][0] == (box.x + box.width, 300.0)


def test_a_long_name_of_a_port_is_shortened_and_the_whole_name_is_its_title():
    outline = PICTURES["condition_with_merge"]
    text = svg_of(layout_of(outline), outline)
    assert "<title>out_a_very_long_name_of_a_port</title>out_a_ve…_a_port<" in text


@given(st.integers(0, 10_000))
def test_an_outline_survives_json(seed):
    outline = random_outline(seed)
    assert Outline.read(outline.document()) == outline
