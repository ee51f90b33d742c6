"""Tests of the places of nodes while a graph is edited."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from modelflow.draw.layout import GAP_ACROSS, GAP_DOWN, layout_of
from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode
from modelflow.studio.edit.picture.placing import MOST_NEW, place_nodes

SIZE = (196.0, 102.0)


def outline(names, edges, pins=()):
    """Returns a graph of nodes with one input and one output each, in the order of the data."""
    pins = dict(pins)
    nodes = (OutlineNode(name, "cpu", (name,), ("in",), ("out",), pins.get(name)) for name in names)
    lines = (OutlineEdge(source, "out", target, "in") for source, target in edges)
    return Outline("", tuple(nodes), tuple(lines))


def chain(names):
    return outline(names, itertools.pairwise(names))


def sizes(graph):
    return {node.name: SIZE for node in graph.nodes}


def middles(layout):
    return {box.name: (box.x + box.width / 2, box.y + box.height / 2) for box in layout.boxes}


def drawn(graph, places=None):
    return place_nodes(graph, sizes(graph), places or {})


def overlap(one, other):
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def overlapping(layout):
    return [
        (one.name, other.name)
        for one, other in itertools.combinations(layout.boxes, 2)
        if overlap(one, other)
    ]


def test_without_places_the_layout_is_the_automatic_one():
    graph = chain("abc")
    assert drawn(graph) == layout_of(graph, sizes(graph))
    assert drawn(graph, {"other": (0.0, 0.0)}) == layout_of(graph, sizes(graph))


def test_a_node_at_the_end_leaves_the_others_and_has_the_automatic_place():
    before = middles(drawn(chain("abc")))
    after = drawn(chain("abcd"), before)
    assert after == layout_of(chain("abcd"), sizes(chain("abcd")))
    assert before.items() <= middles(after).items()


def test_a_common_shift_of_the_automatic_layout_is_taken_back():
    before = outline("abc", [("a", "b")])  # c is below a
    grown = outline("abcde", [("a", "b"), ("d", "e")])
    places = middles(drawn(before))
    moved = {name: (x + 300.0, y - 50.0) for name, (x, y) in places.items()}
    after = drawn(grown, moved)
    assert moved.items() <= middles(after).items()
    automatic = layout_of(grown, sizes(grown))
    assert after.wires == automatic.move(300.0, -50.0).wires
    assert after.x == automatic.x + 300.0


def test_a_new_node_is_right_of_its_source():
    places = {"a": (98.0, 51.0), "b": (400.0, 400.0)}
    after = middles(drawn(outline("abc", [("a", "c")]), places))
    assert after["c"] == (98.0 + SIZE[0] + GAP_ACROSS, 51.0)


def test_a_new_node_is_left_of_its_target():
    places = {"b": (400.0, 400.0), "c": (98.0, 51.0)}
    after = middles(drawn(outline("abc", [("a", "b")]), places))
    assert after["a"] == (400.0 - SIZE[0] - GAP_ACROSS, 400.0)


def test_new_nodes_before_a_target_are_placed_from_the_target_on():
    places = {"c": (900.0, 400.0), "d": (98.0, 51.0)}
    after = middles(drawn(outline("abcd", [("a", "b"), ("b", "c")]), places))
    step = SIZE[0] + GAP_ACROSS
    assert [after["a"], after["b"]] == [(900.0 - 2 * step, 400.0), (900.0 - step, 400.0)]


def test_a_new_node_without_edges_is_below_all_others():
    places = {"a": (98.0, 51.0), "b": (400.0, 400.0)}
    after = middles(drawn(outline("abc", []), places))
    assert after["c"] == (98.0, 400.0 + SIZE[1] + GAP_DOWN)


def test_a_new_node_takes_the_nearest_free_place():
    right = 98.0 + SIZE[0] + GAP_ACROSS
    places = {"a": (98.0, 251.0), "b": (right, 290.0)}
    after = middles(drawn(outline("abc", [("a", "c")]), places))
    assert after["c"] == (right, 290.0 - SIZE[1] - GAP_DOWN)


def test_an_edge_that_leads_back_without_need_arranges_all_nodes_anew():
    places = {"a": (600.0, 51.0), "b": (98.0, 400.0)}
    graph = outline("ab", [("a", "b")])
    assert drawn(graph, places) == layout_of(graph, sizes(graph))
    apart = outline("ab", [])
    assert places.items() <= middles(drawn(apart, places)).items()


def test_a_node_that_does_not_fit_between_two_arranges_all_nodes_anew():
    before = middles(drawn(chain("ab")))
    assert drawn(chain("axb"), before) == layout_of(chain("axb"), sizes(chain("axb")))


def test_the_way_back_of_a_loop_leaves_the_nodes():
    places = {"a": (98.0, 51.0), "b": (600.0, 400.0)}
    loop = outline("ab", [("a", "b"), ("b", "a")])
    assert places.items() <= middles(drawn(loop, places)).items()


def test_a_pinned_node_is_where_the_file_says():
    graph = outline("abc", [("a", "b"), ("b", "c")], {"b": (300.0, 900.0)})
    after = middles(drawn(graph, {"a": (98.0, 51.0), "b": (1.0, 1.0)}))
    assert (after["a"], after["b"]) == ((98.0, 51.0), (300.0, 900.0))
    assert after["c"] == (300.0 + SIZE[0] + GAP_ACROSS, 900.0)


def test_a_new_node_is_not_placed_on_a_pinned_one():
    graph = chain("ab")
    place = middles(layout_of(graph, sizes(graph)))["b"]
    graph = outline("abp", [("a", "b")], {"p": place})
    after = drawn(graph, {"a": middles(layout_of(graph, sizes(graph)))["a"]})
    assert overlapping(after) == []


def test_boxes_that_have_grown_into_each_other_are_arranged_anew():
    places = {"a": (98.0, 51.0), "b": (98.0, 175.0)}
    graph = outline("ab", [])
    big = dict.fromkeys("ab", (196.0, 200.0))
    assert place_nodes(graph, big, places) == layout_of(graph, big)


def test_many_new_nodes_at_once_arrange_all_nodes_anew():
    names = [f"n{number}" for number in range(MOST_NEW + 2)]
    graph = outline(["a", *names], [])
    places = {"a": (9000.0, 51.0), "n0": (98.0, 51.0)}
    assert drawn(graph, places) == layout_of(graph, sizes(graph))


@st.composite
def edited(draw):
    """Draws a graph, and the same graph with more nodes and edges."""
    count = draw(st.integers(2, 9))
    names = [f"n{number}" for number in range(count)]
    pairs = st.sampled_from(list(itertools.combinations(names, 2)))
    edges = draw(st.lists(pairs, max_size=12, unique=True))
    known = draw(st.sets(st.sampled_from(names), min_size=1))
    before = outline(
        [name for name in names if name in known], [edge for edge in edges if {*edge} <= known]
    )
    return before, outline(names, edges)


@given(edited(), st.tuples(st.floats(-500, 500), st.floats(-500, 500)))
def test_the_known_nodes_stay_or_all_nodes_are_arranged_anew(graphs, shift):
    before, after = graphs
    old = {name: (x + shift[0], y + shift[1]) for name, (x, y) in middles(drawn(before)).items()}
    layout = drawn(after, old)
    assert overlapping(layout) == []
    new = middles(layout)
    is_kept = all(abs(new[name][axis] - old[name][axis]) <= 1 for name in old for axis in (0, 1))
    assert is_kept or layout == layout_of(after, sizes(after))
    if is_kept:
        boxes = {box.name: box for box in layout.boxes}
        for edge in after.edges:
            source, target = boxes[edge.source], boxes[edge.target]
            assert source.x + source.width <= target.x + 1


@given(edited())
def test_a_second_look_at_a_picture_changes_no_place(graphs):
    before, after = graphs
    first = middles(drawn(after, middles(drawn(before))))
    second = middles(drawn(after, first))
    assert all(
        abs(first[name][axis] - second[name][axis]) <= 1 for name in first for axis in (0, 1)
    )


@given(edited(), st.data())
def test_pinned_nodes_stay_where_the_file_says(graphs, data):
    before, after = graphs
    name = data.draw(st.sampled_from([node.name for node in after.nodes]))
    nodes = (
        replace(node, position=(700.0, 40.0)) if node.name == name else node for node in after.nodes
    )
    layout = drawn(replace(after, nodes=tuple(nodes)), middles(drawn(before)))
    assert middles(layout)[name] == (700.0, 40.0)
