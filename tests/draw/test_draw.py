import xml.etree.ElementTree as ET

import pytest

import modelflow
from modelflow.draw.layout import layout_of
from modelflow.draw.outline import Outline
from modelflow.draw.svg import draw, svg_of
from modelflow.errors import ConfigError
from modelflow.graph.read import read_graph
from tests.draw.pictures import PICTURES

SVG = "{http://www.w3.org/2000/svg}"
TEXT = f"{SVG}text"
GRAPH = """digraph two_ways {
    queue_size=16
    photo [type=input]  regions [type=input]
    decode [flowunit=image_decoder, batch_size=4]
    "a \\"b\\" <c>" [flowunit=resize, width=8, height=8]
    crop
    out [type=output]  grey [type=output]
    grey_one [flowunit=color_convert, out_pix_fmt=gray]
    photo -> decode -> "a \\"b\\" <c>" -> crop:in_image
    regions -> crop:in_region
    crop -> out
    decode -> grey_one -> grey
}"""


@pytest.fixture(scope="module")
def graph():
    return read_graph(GRAPH)


def test_svg_is_well_formed_and_says_units_devices_and_sizes(graph):
    root = ET.fromstring(draw(graph, "svg"))
    texts = [text.text for text in root.iter(TEXT)]
    for expected in (
        "decode",
        "image_decoder",
        "batch 4 · queue 16",
        'a "b" <c>',
        "in_region",
    ):
        assert expected in texts
    assert any("".join(text.itertext()).endswith("on cpu:0") for text in root.iter(TEXT))
    wires = [path for path in root.iter(f"{SVG}path") if path.get("class") == "wire"]
    assert len(wires) == len(graph.edges)


def test_dot_can_be_read_again(graph):
    from modelflow.config.dot.read import read_dot

    again = read_dot(draw(graph, "dot"))
    assert {node.name for node in again.nodes} == set(graph.nodes)
    assert len(again.edges) == len(graph.edges)


def test_mermaid_has_every_node_and_edge(graph):
    text = draw(graph, "mermaid")
    assert text.startswith("flowchart LR\n")
    assert text.count("-->") == len(graph.edges)
    assert "#quot;" in text or "&quot;" in text
    assert "classDef cpu" in text


def test_a_wrong_format_names_those_there_are(graph):
    with pytest.raises(ConfigError, match="expected one of svg, dot, mermaid; did you mean 'svg'"):
        draw(graph, "svgg")


def test_kinds_have_marks_with_an_explanation_and_a_title():
    text = svg_of(layout_of(PICTURES["expand_in_a_loop"]), PICTURES["expand_in_a_loop"])
    root = ET.fromstring(text)
    texts = [found.text for found in root.iter(TEXT)]
    assert {"loop", "expand", "collapse", "condition"} <= set(texts)
    assert "source" not in texts
    assert "search: loop" in [title.text for title in root.iter(f"{SVG}title")]
    signs = [path for path in root.iter(f"{SVG}path") if path.get("class") == "mark"]
    assert len(signs) == 4 + 4  # in the boxes, and in the explanation


def test_units_have_the_mark_of_their_kind():
    modelflow.flowunit(kind="condition", outputs=("yes", "no"), name="draw_choose")(
        lambda data: data
    )
    modelflow.flowunit(outputs=(), name="draw_store")(lambda data: None)
    graph = read_graph("""digraph { input [type=input] draw_choose draw_store output [type=output]
        input -> draw_choose  draw_choose:yes -> draw_store  draw_choose:no -> output }""")
    marks = {node.name: node.mark for node in Outline.of(graph).nodes}
    assert marks == {"input": "", "draw_choose": "condition", "draw_store": "sink", "output": ""}


def test_a_box_names_its_device_only_where_it_is_not_the_usual_one():
    graph = read_graph(
        """digraph { input [type=input] output [type=output]
        a [flowunit=mean] b [flowunit=mean] c [flowunit=mean, device=cuda]
        input -> a -> b -> c -> output }""",
        check_devices=False,
    )
    lines = {node.name: node.lines for node in Outline.of(graph).nodes}
    assert lines["a"] == ("a", "mean")
    assert lines["c"][-1].startswith("cuda")


@pytest.mark.parametrize(
    ("direction", "dot", "mermaid"), [("right", "LR", "LR"), ("down", "TB", "TD")]
)
def test_the_text_forms_have_the_direction(graph, direction, dot, mermaid):
    assert f"rankdir={dot};" in draw(graph, "dot", direction)
    assert draw(graph, "mermaid", direction).startswith(f"flowchart {mermaid}\n")
