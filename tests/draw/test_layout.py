"""Tests of the positions of boxes and wires in any graph."""

from hypothesis import given
from hypothesis import strategies as st

from modelflow.draw.layout import layout_of
from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode


@st.composite
def outlines(draw):
    count = draw(st.integers(1, 12))
    names = [f"n{place}" for place in range(count)]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nodes = tuple(
        OutlineNode(name, "cpu", (name, "x" * draw(st.integers(1, 30))), ("in",), ("out",))
        for name in names
    )
    return Outline(
        "g", nodes, tuple(OutlineEdge(names[a], "out", names[b], "in") for a, b in chosen)
    )


def _crosses(wire, box):
    """Returns whether a wire passes through a box, checked at 60 points of each curve."""
    for p0, p1, p2, p3 in wire.curves:
        for step in range(61):
            t = step / 60
            x, y = (
                (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
                for a, b, c, d in zip(p0, p1, p2, p3, strict=True)
            )
            is_across = box.x + 1 < x < box.x + box.width - 1
            if is_across and box.y < y < box.y + box.height:
                return True
    return False


@given(outlines())
def test_no_wire_runs_behind_a_box(outline):
    layout = layout_of(outline)
    for wire in layout.wires:
        for box in layout.boxes:
            assert not _crosses(wire, box), (wire, box)


@given(outlines())
def test_a_wire_goes_from_its_source_to_its_target(outline):
    layout = layout_of(outline)
    boxes = {box.name: box for box in layout.boxes}
    assert [box.name for box in layout.boxes] == [node.name for node in outline.nodes]
    for edge, wire in zip(outline.edges, layout.wires, strict=True):
        source, target = boxes[edge.source], boxes[edge.target]
        assert wire.points[0] == (source.x + source.width, source.y + source.height / 2)
        assert wire.points[-1] == (target.x, target.y + target.height / 2)
        assert wire.path.startswith("M")


@given(outlines())
def test_an_outline_survives_json(outline):
    assert Outline.read(outline.document()) == outline
