"""Tests of the parts of a graph that can run elsewhere, and of the messages about other parts."""

from dataclasses import replace

import pytest

from modelflow.config.placement import PlacementConfig
from modelflow.config.read import read_config
from modelflow.config.write import write_config
from modelflow.errors import ConfigError, GraphError
from modelflow.graph.node import Node, Role
from modelflow.graph.read import read_graph
from modelflow.insight.tune.cut import cuts_of
from modelflow.plan.partition import Partition, find_partitions
from modelflow.unit.kind import Collapse, Condition, Expand, Loop, Stream
from tests.runtime.graphs import spec_of

UNITS = [
    spec_of(name="plain"),
    spec_of(name="join", inputs=("a", "b")),
    spec_of(name="split", outputs=("x", "y")),
    spec_of(name="stream", kind=Stream()),
    spec_of(name="source", inputs=()),
    spec_of(name="sink", outputs=()),
    spec_of(name="expand", kind=Expand()),
    spec_of(name="collapse", kind=Collapse()),
    spec_of(name="choose", kind=Condition(), outputs=("x", "y")),
    spec_of(name="again", kind=Loop(), outputs=("back", "out")),
]


def graph_of(edges, **placed):
    """Returns a graph of nodes named after their units (``plain``, ``plain_2``), some placed."""
    names = dict.fromkeys(
        end.partition(":")[0].strip() for edge in edges.split(";") for end in edge.split("->")
    )
    lines = []
    for name in names:
        unit = name.partition("_")[0]
        far = f", placement={placed[name]}" if name in placed else ""
        kind = f"type={unit}" if unit in ("input", "output") else f"flowunit={unit}"
        lines.append(f"{name} [{kind}{far}]")
    places = "\n".join(f"[placement.{name}]" for name in dict.fromkeys(placed.values()))
    body = "; ".join([*lines, *edges.split(";")])
    text = f"{places}\n[graph]\ngraphconf = '''digraph {{ {body} }}'''"
    return read_graph(text, format="toml", units=UNITS)


@pytest.mark.parametrize(
    ("edges", "placed", "nodes", "ports"),
    [
        ("input->plain->plain_2->output", {"plain": "m", "plain_2": "m"}, "plain plain_2", (1, 1)),
        ("input->plain->output", {"plain": "m"}, "plain", (1, 1)),
        (
            "input->split; split:x->join:a; split:y->join:b; join->output",
            {"join": "m"},
            "join",
            (2, 1),
        ),
        ("input->split; split:x->output; split:y->output_2", {"split": "m"}, "split", (1, 2)),
        (
            "input->expand->plain->collapse->output",
            {"expand": "m", "plain": "m", "collapse": "m"},
            "expand plain collapse",
            (1, 1),
        ),
        ("input->expand->plain->collapse->output", {"plain": "m"}, "plain", (1, 1)),
        (
            "input->choose; choose:x->plain; choose:y->plain_2; plain->plain_3; plain_2->plain_3;"
            "plain_3->output",
            {"choose": "m", "plain": "m", "plain_2": "m", "plain_3": "m"},
            "choose plain plain_2 plain_3",
            (1, 1),
        ),
        (
            "input->choose; choose:x->plain->output; choose:y->output",
            {"plain": "m"},
            "plain",
            (1, 1),
        ),
        ("input->stream->plain->output", {"plain": "m"}, "plain", (1, 1)),
    ],
)
def test_what_gives_a_row_for_each_can_be_elsewhere(edges, placed, nodes, ports):
    (part,) = find_partitions(graph_of(edges, **placed))
    assert part.nodes == tuple(nodes.split())
    assert part.name == part.nodes[0]
    assert (len(part.entries), len(part.exits)) == ports


def test_what_no_edge_connects_are_parts_of_their_own():
    graph = graph_of("input->plain->plain_2->plain_3->output", plain="m", plain_3="m")
    assert [part.nodes for part in find_partitions(graph)] == [("plain",), ("plain_3",)]


@pytest.mark.parametrize(
    ("edges", "placed", "said"),
    [
        ("input->plain->output", {"input": "m"}, "it is an input of the graph"),
        ("source->output", {"source": "m"}, "it is a source, which runs where the flow is"),
        ("input->sink", {"sink": "m"}, "it is a sink, which runs where the flow is"),
        ("input->stream->output", {"stream": "m"}, "it is a stream unit, whose state belongs"),
        (
            "input->expand->plain->collapse->output",
            {"expand": "m"},
            "'expand:out' without exactly one row for each row that enters. Place an expand",
        ),
        (
            "input->choose; choose:x->output; choose:y->output_2",
            {"choose": "m"},
            "'choose:x' without exactly one row for each row that enters",
        ),
        (
            "input->split; split:x->plain->join:a; split:y->join:b; join->output",
            {"split": "m", "join": "m"},
            "a way leaves the nodes placed there and leads back to them, over plain",
        ),
        (
            "input->again; again:back->plain->again; again:out->output",
            {"again": "m"},
            "the node is a loop, but 'plain' on its way back is not placed there",
        ),
        (
            "input->choose; choose:x->plain; choose:y->plain_2; plain->plain_3; plain_2->plain_3;"
            "plain_3->output",
            {"plain": "m", "plain_3": "m"},
            "at the input 'in' a branch from 'plain_2', which is elsewhere, meets",
        ),
    ],
)
def test_what_cannot_be_elsewhere_is_told_with_node_and_reason(edges, placed, said):
    graph = graph_of(edges, **placed)
    with pytest.raises(GraphError) as caught:
        cuts_of(graph)
    found = caught.value.findings
    assert any(said in finding.message for finding in found), [f.message for f in found]
    assert all(finding.node in placed for finding in found)


def test_a_placement_that_nobody_declares_is_told_with_the_nearest():
    text = "[placement.gpu]\n[graph]\ngraphconf = '''digraph { input [type=input]; "
    text += "plain [placement=gpo]; output [type=output]; input -> plain -> output }'''"
    with pytest.raises(GraphError, match=r"placement: got 'gpo'; did you mean 'gpu'\?"):
        read_graph(text, format="toml", units=UNITS)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("replicas = '4..2'", "key 'replicas': got '4..2'; expected a number from 1 to 10000"),
        ("replicas = 0", "key 'replicas': got '0'; expected a number from 1"),
        ("resources = { GPU = -1 }", "key 'resources': GPU: got -1; expected a number of at least"),
        ("resources = { memory = 'lots' }", "memory: got 'lots'; expected a size such as '8GiB'"),
        ("resources = { CPUs = 1 }", "got 'CPUs'; did you mean 'CPU'?"),
        ("resources = { cpu = 1 }", "got 'cpu'; did you mean 'CPU'?"),
        (
            "resources = { GPU = 1.5 }",
            "GPU: got 1.5; expected a whole number, or a part of a GPU: 0.5",
        ),
        ("resources = 3", "key 'resources': got 3; expected names with amounts"),
        ("labels = { zone = 1 }", "key 'labels': got {'zone': 1}; expected names with texts"),
        ("retires = 1", "unknown key 'retires'; did you mean 'retries'?"),
    ],
)
def test_a_wrong_key_of_a_placement_is_told_with_what_was_expected(key, said):
    with pytest.raises(ConfigError) as caught:
        read_config(f"[placement.far]\n{key}\n", "toml")
    assert said in str(caught.value)


def test_a_placement_is_written_as_it_was_read_but_where_the_graph_stands_alone():
    graph = graph_of("input->plain->output", plain="m")
    again = read_config(write_config(graph.config, "toml"), "toml")
    assert again.placements == graph.config.placements
    assert "placement" not in write_config(graph.config, "dot")


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ({"is_one_by_one": True}, 1),
        ({"batch_size": 1}, 1),
        ({"kind": Expand()}, 1),
        ({}, 16),
        ({"batch_size": 4}, 16),
    ],
)
def test_whole_batches_cross_where_a_unit_gains_from_them(said, rows):
    row = Node("row", Role.FLOWUNIT, spec_of(name="row", is_one_by_one=True))
    other = Node("other", Role.FLOWUNIT, spec_of(name="other", **said))
    graph = graph_of("input->plain->output")
    for nodes in ([row, other], [other, row]):
        inside = replace(graph, nodes={node.name: node for node in nodes})
        part = Partition("row", PlacementConfig("m"), ("row", "other"), (), (), inside)
        assert part.least_rows == rows
