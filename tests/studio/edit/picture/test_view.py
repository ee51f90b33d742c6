"""Tests of the data that a page gets for a text."""

import sys
from pathlib import Path

import pytest

from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.view import view_of

GRAPHS = sorted((Path(__file__).resolve().parents[4] / "graphs").glob("*.toml"))


def viewed(text, name="graph.dot"):
    return view_of(Draft(text, Path(name)))


def box(view, name):
    return next(one for one in view["picture"]["boxes"] if one["name"] == name)


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_every_ready_graph_has_a_picture_of_all_its_nodes(path):
    draft = Draft(path.read_text(), path)
    view = view_of(draft)
    assert {one["name"] for one in view["picture"]["boxes"]} == set(draft.graph_text.nodes)
    assert len(view["picture"]["wires"]) == len(draft.graph_text.edges)
    assert not any(port["wrong"] for one in view["picture"]["boxes"] for port in one["inputs"])
    graph = draft.check.graph
    if graph is not None:
        assert set(view["plan"]) == {node.name for node in graph.nodes.values() if node.spec}


def test_a_wrong_port_is_said_with_its_line():
    view = viewed(
        "digraph {\n input [type=input]\n output [type=output]\n"
        " r [flowunit=resize, image_width=1, image_height=1]\n"
        " input -> r:in_imag\n r -> output\n}"
    )
    said = {(one["node"], one["port"], one["line"]) for one in view["findings"]}
    assert ("r", "in_imag", 5) in said
    wrong = [port["name"] for port in box(view, "r")["inputs"] if port["wrong"]]
    assert wrong == ["in_imag"]
    assert view["plan"] == {}


def test_an_input_that_nothing_feeds_is_said_at_the_port():
    view = viewed(
        "digraph {\n r [flowunit=resize, image_width=1, image_height=1]\n"
        " output [type=output]\n r -> output\n}"
    )
    assert [(one["node"], one["port"], one["line"]) for one in view["findings"]] == [
        ("r", "in_image", 2)
    ]


def test_a_text_that_is_no_graph_has_findings_and_no_picture():
    view = viewed("digraph {\n a -> \n}")
    assert view["picture"] is None
    assert [one["line"] for one in view["findings"]] == [3]
    assert view["text"] == "digraph {\n a -> \n}"


def test_a_device_that_is_not_there_is_said_at_the_node():
    view = viewed(
        "digraph {\n input [type=input]\n output [type=output]\n"
        " r [flowunit=resize, image_width=1, image_height=1, device=cuda, deviceid=99]\n"
        " input -> r -> output\n}"
    )
    (finding,) = view["findings"]
    assert (finding["node"], finding["line"]) == ("r", 4)


def test_what_stands_in_the_way_of_a_plan_is_said_at_its_node():
    view = viewed(
        "digraph {\n input [type=input]\n output [type=output]\n"
        " r [flowunit=resize, image_width=1, image_height=1, fuse=alone]\n"
        " input -> r -> output\n}"
    )
    (finding,) = view["findings"]
    assert (finding["node"], finding["line"], view["plan"]) == ("r", 4, {})
    assert finding["message"].startswith("fuse='alone': no other node bears this name")
    assert view["picture"] is not None


def test_the_file_of_a_unit_that_is_wrong_leaves_the_picture(tmp_path):
    (tmp_path / "units" / "bad").mkdir(parents=True)
    (tmp_path / "units" / "bad" / "bad.toml").write_text("[base]\nname = \n")
    text = "[driver]\ndir = ['units']\n[graph]\ngraphconf = 'digraph { a [flowunit=bad] }'\n"
    view = view_of(Draft(text, tmp_path / "graph.toml"))
    assert [one["name"] for one in view["picture"]["boxes"]] == ["a"]
    (finding,) = view["findings"]
    assert "bad.toml" in finding["message"]
    assert (finding["node"], finding["line"]) == ("a", 4)


def test_a_pinned_box_stands_where_the_file_says():
    view = viewed('digraph { a [flowunit=resize, pos="500,-300!"] b [flowunit=resize] a -> b }')
    pinned, free = box(view, "a"), box(view, "b")
    assert (pinned["x"] + pinned["width"] / 2, pinned["y"] + pinned["height"] / 2) == (500, 300)
    assert (pinned["pinned"], free["pinned"]) == (True, False)


def calls_of(nodes):
    """Returns how many Python functions are called to show a text of so many unknown nodes."""
    text = "digraph {" + ";".join(f"n{i} -> m{i}" for i in range(nodes // 2)) + "}"
    draft, calls = Draft(text, Path("graph.dot")), []
    sys.setprofile(lambda _, event, __: calls.append(1) if event == "call" else None)
    try:
        view_of(draft)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_what_a_text_of_many_unknown_nodes_costs_grows_with_their_number_alone():
    calls_of(10)  # imports and lookups that happen once
    assert calls_of(1200) < 4.5 * calls_of(300)
