"""Tests of the drawing of a text, right or wrong."""

from modelflow.config.edit.graph_text import GraphText
from modelflow.registry.registry import Registry
from modelflow.studio.edit.picture.sketch import sketch_of

REGISTRY = Registry()


def sketched(body, form="dot"):
    text = body if form == "toml" else f"digraph g {{ {body} }}"
    return sketch_of(GraphText.read(text, form), REGISTRY)


def ports(ports):
    return [(port.name, port.port is not None, port.is_used) for port in ports]


def test_ports_are_those_of_the_units():
    cards = sketched("input [type=input] r [flowunit=resize] input -> r").cards
    assert ports(cards["input"].outputs) == [("input", True, True)]
    assert ports(cards["r"].inputs) == [("in_image", True, True)]
    assert ports(cards["r"].outputs) == [("out_image", True, False)]
    assert [card.kind for card in cards.values()] == ["port", "cpu"]


def test_a_port_that_is_not_there_is_drawn_and_marked():
    cards = sketched("a [flowunit=resize] b [flowunit=resize] a:wrong -> b:in_imag").cards
    assert ports(cards["a"].outputs) == [("out_image", True, False), ("wrong", False, True)]
    assert ports(cards["b"].inputs) == [("in_image", True, False), ("in_imag", False, True)]


def test_a_unit_that_is_not_known_has_the_ports_of_its_edges():
    cards = sketched("a [flowunit=rezise] b [flowunit=resize] a:x -> b").cards
    assert cards["a"].kind == "missing"
    assert ports(cards["a"].outputs) == [("x", False, True)]


def test_an_edge_of_many_ports_that_names_none_goes_to_a_port_without_a_name():
    sketch = sketched("a [flowunit=resize] d [flowunit=draw_bbox] a -> d")
    (strand,) = sketch.strands
    assert strand.output == "out_image"
    assert strand.input == ""
    assert ("", False, True) in ports(sketch.cards["d"].inputs)


def test_a_node_that_only_an_edge_names_is_drawn():
    toml = """
[[node]]
name = "a"
flowunit = "resize"
[[edge]]
from = "a"
to = "nowhere:x"
"""
    cards = sketched(toml, "toml").cards
    assert cards["nowhere"].kind == "missing"
    assert ports(cards["nowhere"].inputs) == [("x", False, True)]


def test_a_circle_is_drawn_all_the_same():
    sketch = sketched("a [flowunit=resize] b [flowunit=resize] a -> b -> a")
    assert sorted(sketch.cards) == ["a", "b"]
    assert len(sketch.outline.edges) == 2


def test_nodes_come_in_the_order_of_the_data():
    text = "c [flowunit=resize] b [flowunit=resize] a [type=input] a -> b -> c"
    assert list(sketched(text).cards) == ["a", "b", "c"]


def test_a_place_is_that_of_the_file():
    outline = sketched('a [flowunit=resize, pos="10,-20!"] b [flowunit=resize]').outline
    assert {node.name: node.position for node in outline.nodes} == {"a": (10, 20), "b": None}
