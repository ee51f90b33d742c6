"""Tests of the display of a flow, its plan and its statistics in notebooks and by `print`."""

from xml.etree import ElementTree

import pytest

import modelflow

GRAPH = "digraph shout { input [type=input] upper output [type=output] input -> upper -> output }"


@modelflow.flowunit
def upper(text: str):
    return text.upper()


@pytest.fixture
def flow():
    with modelflow.Flow(GRAPH, units=[upper]) as running:
        running.infer("a")
        yield running


def test_a_flow_says_what_it_is(flow):
    assert repr(flow) == "<Flow 'shout': 3 nodes, inputs: input, outputs: output>"


def test_a_flow_is_shown_as_the_picture_of_its_graph(flow):
    picture = ElementTree.fromstring(flow._repr_svg_())
    assert picture.tag.endswith("svg")
    assert "upper" in "".join(picture.itertext())


def test_a_plan_is_shown_as_a_table_with_a_row_a_node(flow):
    lines = str(flow.scheduler.plan).splitlines()
    assert [line.split()[0] for line in lines] == ["node", "upper"]
    table = ElementTree.fromstring(flow.scheduler.plan._repr_html_())
    assert [cell.text for cell in table.iter("td")][:2] == ["upper", "upper"]
    assert table.find("caption").text == "shout"


def test_figures_are_shown_as_a_table_with_a_row_a_node(flow):
    stats = flow.stats()
    first, head, row = str(stats).splitlines()
    assert first.startswith("shout: ")
    assert "requests: " in first
    assert first.endswith(" in flight")
    assert head.split()[:5] == ["node", "unit", "threads", "rows", "calls"]
    assert row.split()[:2] == ["upper", "upper"]
    assert row.split()[3:5] == ["1", "1"]
    table = ElementTree.fromstring(stats._repr_html_())
    assert [cell.text for cell in table.iter("td")][:2] == ["upper", "upper"]
