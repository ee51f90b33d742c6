"""Tests of a page's operations and their effect on the text."""

import pytest

from modelflow.config.edit.graph_text import GraphText
from modelflow.errors import ConfigError
from modelflow.registry.registry import Registry
from modelflow.studio.edit.clipping import copy, paste
from modelflow.studio.edit.operations import MOST_OPERATIONS, apply_operations

REGISTRY = Registry()
DOT = """digraph g {
    input[type=input]  // photos
    small[flowunit=resize, image_width=8, image_height=8]
    output[type=output]

    input -> small -> output
}
"""
TOML = """# a graph
[[node]]
name = "small"
flowunit = "resize"
image_width = 8   # pixels
image_height = 8
"""


def done(*operations, text=DOT, form="dot"):
    return apply_operations(GraphText.read(text, form), operations, REGISTRY).text.text


def end(node, port=None):
    return {"node": node, "port": port}


def lines(before, after):
    """Returns the removed lines and the new lines."""
    old, new = before.splitlines(), after.splitlines()
    return [one for one in old if one not in new], [one for one in new if one not in old]


def test_a_node_that_is_moved_says_where_and_nothing_else_changes():
    text = done({"do": "move", "places": {"small": [300.2, 40]}})
    gone, new = lines(DOT, text)
    assert gone == ["    small[flowunit=resize, image_width=8, image_height=8]"]
    assert new == ['    small[flowunit=resize, image_width=8, image_height=8, pos="300,-40!"]']
    assert done({"do": "tidy"}, text=text) == DOT


def test_values_of_tables_have_their_types():
    value = {"do": "set", "node": "small", "key": "image_width", "value": "32"}
    assert "image_width = 32   # pixels" in done(value, text=TOML, form="toml")
    assert "threads = 2" in done(value | {"key": "threads", "value": "2"}, text=TOML, form="toml")
    assert 'image_width = "$w"' in done(value | {"value": "$w"}, text=TOML, form="toml")
    assert 'image_width = "wide"' in done(value | {"value": "wide"}, text=TOML, form="toml")
    assert "allowed_batch_sizes = [1, 4]" in done(
        value | {"key": "allowed_batch_sizes", "value": "1,4"}, text=TOML, form="toml"
    )


def test_all_that_a_page_can_ask_for():
    text = done(
        {"do": "add", "name": "gray", "attributes": {"flowunit": "color_convert"}},
        {"do": "set", "node": "gray", "key": "out_pix_fmt", "value": "gray"},
        {"do": "disconnect", "source": end("small"), "target": end("output")},
        {"do": "connect", "source": end("small"), "target": end("gray", "in_image")},
        {"do": "connect", "source": end("gray"), "target": end("output")},
        {"do": "rename", "node": "small", "name": "smaller"},
        {"do": "unset", "node": "smaller", "key": "image_height"},
    )
    assert text == DOT.replace(
        "small[flowunit=resize, image_width=8, image_height=8]",
        "smaller[flowunit=resize, image_width=8]",
    ).replace(
        "    output[type=output]\n",
        "    output[type=output]\n    gray[flowunit=color_convert, out_pix_fmt=gray]\n",
    ).replace(
        "    input -> small -> output\n",
        "    input -> smaller\n    smaller -> gray:in_image\n    gray -> output\n",
    )
    nodes = {"do": "remove", "nodes": ["small", "output"]}
    assert done(nodes) == "digraph g {\n    input[type=input]  // photos\n\n}\n"


def test_a_node_that_is_called_like_its_unit_keeps_it_under_another_name():
    text = done({"do": "rename", "node": "resize", "name": "x"}, text="digraph { resize [k=1] }")
    assert GraphText.read(text, "dot").nodes == {"x": {"k": "1", "flowunit": "resize"}}


def test_what_an_edge_alone_names_is_removed_with_the_edge():
    toml = TOML + '[[edge]]\nfrom = "small"\nto = "nowhere"\n'
    text = done({"do": "remove", "nodes": ["nowhere"]}, text=toml, form="toml")
    assert "nowhere" not in text


def test_what_is_copied_is_pasted_under_free_names():
    clipping = copy(GraphText.read(DOT, "dot"), ["input", "small"])
    after = GraphText.read(done({"do": "paste", "text": clipping}), "dot")
    assert set(after.nodes) == {"input", "small", "output", "input_2", "small_2"}
    assert after.nodes["small_2"] == after.nodes["small"]
    assert [f"{a} -> {b}" for a, b in after.edges][-1] == "input_2 -> small_2"


def test_a_copy_goes_from_one_form_to_another():
    clipping = copy(GraphText.read(DOT, "dot"), ["small"])
    text = done({"do": "paste", "text": clipping}, text=TOML, form="toml")
    assert GraphText.read(text, "toml").nodes["small_2"] == {
        "flowunit": "resize",
        "image_width": 8,
        "image_height": 8,
    }


def test_where_a_node_stood_is_not_copied():
    placed = done({"do": "move", "places": {"small": [1, 2]}})
    assert "pos" not in copy(GraphText.read(placed, "dot"), ["small"])


def test_statements_of_dot_can_be_pasted_as_they_are():
    after = GraphText.read(done({"do": "paste", "text": "a -> b [x=1] # c"}), "dot")
    assert {"a", "b"} <= set(after.nodes)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"do": "sett"}, "operation 'sett': expected one of .*; did you mean 'set'?"),
        ({}, "operation None"),
        ({"do": "set", "node": "smal", "key": "a", "value": "b"}, "did you mean 'small'"),
        (
            {"do": "set", "node": "small", "key": 1, "value": "b"},
            "set: key: got 1; expected a text",
        ),
        ({"do": "add", "name": "a", "attributes": []}, "expected texts by name"),
        ({"do": "remove", "nodes": "small"}, "expected a list of names"),
        ({"do": "move", "places": {"small": [1]}}, "expected \\[x, y\\] by node"),
        ({"do": "move", "places": {"small": [1, float("inf")]}}, "expected \\[x, y\\] by node"),
        ({"do": "connect", "source": "a", "target": end("small")}, "a node and its port"),
        ({"do": "paste", "text": "a ->"}, "<clipboard>"),
        ({"do": "unset", "node": "small", "key": "image_widht"}, "did you mean 'image_width'"),
    ],
)
def test_what_cannot_be_done_is_said(operation, said):
    with pytest.raises(ConfigError, match=said):
        done(operation)


def test_of_too_many_operations_none_is_done():
    with pytest.raises(ConfigError, match="expected at most"):
        done(*[{"do": "tidy"}] * (MOST_OPERATIONS + 1))


ODD = """digraph odd { node[threads=2]
  a[flowunit=resize pos="1,2!"]; "b c" [ flowunit=mean /* why */ ]
  subgraph s { d[flowunit=mean, pos="9,9!" ,queue_size=3] e }
  a -> "b c" -> d -> e // end
}
"""


def test_many_nodes_are_moved_as_one_after_the_other_would_be(monkeypatch):
    text = GraphText.read(ODD, "dot")
    places = {name: (10.0 * place, 5.0) for place, name in enumerate(text.nodes)}
    one_by_one = text
    for name, place in places.items():
        one_by_one = one_by_one.move_all({name: place})
    assert text.move_all(places).nodes == one_by_one.nodes
    tidied = one_by_one
    for name in text.nodes:
        tidied = tidied.move_all({name: None})
    assert one_by_one.move_all(dict.fromkeys(text.nodes)).nodes == tidied.nodes


def test_moving_many_nodes_reads_the_text_a_few_times(monkeypatch):
    from modelflow.config.edit import dot as edit_dot

    nodes = "".join(f"n{number}[flowunit=mean]\n" for number in range(200))
    text = GraphText.read(f"digraph {{\n{nodes}}}", "dot")
    reads = []
    real = edit_dot.read_dot

    def counted(*args, **more):
        reads.append(1)
        return real(*args, **more)

    monkeypatch.setattr(edit_dot, "read_dot", counted)
    moved = text.move_all(dict.fromkeys(text.nodes, (1.0, 2.0)))
    assert all(given["pos"] == "1,-2!" for given in moved.nodes.values())
    assert moved.move_all(dict.fromkeys(moved.nodes)).text == text.text
    assert len(reads) < 10


def test_statements_of_a_node_whose_name_begins_as_a_graph_are_pasted():
    text = GraphText.read("digraph { a[flowunit=mean] }", "dot")
    pasted = paste(text, "digraphx[flowunit=mean]", Registry())
    assert "digraphx" in pasted.nodes
    assert "b" in paste(text, "strict digraph { b[flowunit=mean] }", Registry()).nodes


def added(*operations, text=DOT):
    edited = apply_operations(GraphText.read(text, "dot"), operations, REGISTRY)
    return edited.added, edited.text


def test_a_node_whose_name_is_in_use_gets_a_free_name_that_later_operations_mean():
    names, text = added(
        {"do": "add", "name": "small", "attributes": {"flowunit": "resize"}},
        {"do": "set", "node": "small", "key": "image_width", "value": "9"},
        {"do": "move", "places": {"small": [1, 2]}},
        {"do": "connect", "source": end("input"), "target": end("small", "in_image")},
    )
    assert names == ("small_2",)
    assert text.nodes["small_2"] == {"flowunit": "resize", "image_width": "9", "pos": "1,-2!"}
    assert text.nodes["small"]["image_width"] == "8"
    assert f"{text.edges[-1][0]} -> {text.edges[-1][1]}" == "input -> small_2:in_image"


def test_a_node_under_a_free_name_runs_the_unit_of_its_wanted_name():
    names, text = added(
        {"do": "add", "name": "mean", "attributes": {}},
        {"do": "add", "name": "mean", "attributes": {}},
        {"do": "set", "node": "mean", "key": "threads", "value": "2"},
    )
    assert names == ("mean", "mean_2")
    assert (text.nodes["mean"], text.nodes["mean_2"]) == ({}, {"flowunit": "mean", "threads": "2"})


def test_an_output_under_a_free_name_has_no_unit():
    names, text = added({"do": "add", "name": "output", "attributes": {"type": "output"}})
    assert names == ("output_2",)
    assert text.nodes["output_2"] == {"type": "output"}


def test_added_nodes_are_listed_by_their_last_names():
    names, text = added(
        {"do": "add", "name": "small", "attributes": {}},
        {"do": "rename", "node": "small", "name": "tiny"},
        {"do": "set", "node": "small", "key": "threads", "value": "2"},
        {"do": "paste", "text": "mean"},
        {"do": "add", "name": "gone", "attributes": {}},
        {"do": "remove", "nodes": ["gone"]},
    )
    assert names == ("tiny", "mean")
    assert text.nodes["small"]["threads"] == "2"


def test_a_removed_node_no_longer_has_the_wanted_name():
    names, text = added(
        {"do": "add", "name": "small", "attributes": {}},
        {"do": "remove", "nodes": ["small"]},
        {"do": "remove", "nodes": ["small"]},
    )
    assert (names, set(text.nodes)) == ((), {"input", "output"})
