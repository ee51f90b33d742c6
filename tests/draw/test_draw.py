import xml.etree.ElementTree as ET

import pytest

from modelflow.draw.layout import layout_of
from modelflow.draw.outline import Outline
from modelflow.draw.svg import draw
from modelflow.errors import ConfigError
from modelflow.graph.read import read_graph

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


def test_boxes_do_not_overlap_and_stand_behind_what_feeds_them(graph):
    layout = layout_of(Outline.of(graph))
    boxes = {box.name: box for box in layout.boxes}
    assert set(boxes) == set(graph.nodes)
    for edge in graph.edges:
        source, target = boxes[edge.source.node], boxes[edge.target.node]
        assert source.x + source.width < target.x
    for one in layout.boxes:
        assert 0 <= one.x <= layout.width - one.width
        assert 0 <= one.y <= layout.height - one.height
        for other in layout.boxes:
            apart = (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y
                or other.y + other.height <= one.y
            )
            assert one is other or apart


def test_svg_is_well_formed_and_says_units_devices_and_sizes(graph):
    root = ET.fromstring(draw(graph, "svg"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for expected in (
        "decode",
        "image_decoder",
        "cpu:0",
        "batch 4 · queue 16",
        'a "b" <c>',
        "in_region",
    ):
        assert expected in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == len(graph.edges) + 1


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
